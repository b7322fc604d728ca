"""Transparent parts are white in all formats, as Pillow composes a picture on white; and the pages of TIFFs."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mxtrain.data.decode import decoding
from mxtrain.data.decode.jpeg import BadPicture
from mxtrain.data.packing.pictures import image_info
from mxtrain.data.packing.pictures.images import ImageOptions, prepare

SIZE = 48
RGBA = np.random.default_rng(0).integers(0, 256, (SIZE, SIZE, 4)).astype(np.uint8)
IMAGES = {"RGBA": Image.fromarray(RGBA), "LA": Image.fromarray(RGBA).convert("LA")}


def on_white(image: Image.Image) -> Any:
    image = image.convert("RGBA")
    return np.asarray(
        Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    ).astype(int)


def png(depth: int, colour: int, rows: list[bytes], width: int, transparent: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, len(rows), depth, colour, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    chunks = [chunk(b"IHDR", header), chunk(b"tRNS", transparent), chunk(b"IDAT", data), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def tiff(
    samples: Any,
    order: str = "<",
    photometric: int = 2,
    extra: int | None = 2,
    turn: int = 1,
    predictor: int = 1,
) -> bytes:
    """One strip; deflated where a predictor is asked for, which is nothing without compression."""
    height, width, num_samples = samples.shape
    bits, compression = 8 * samples.itemsize, 1
    data = samples.astype(samples.dtype.newbyteorder(order)).tobytes()
    if predictor == 2:
        before = np.zeros((height, 1, num_samples), np.uint8)
        data, compression = zlib.compress(np.diff(samples, axis=1, prepend=before).tobytes()), 8
        data += bytes(len(data) % 2)
    entries = [
        *((256, 4, [width]), (257, 4, [height]), (258, 3, [bits] * num_samples), (259, 3, [compression])),
        *((262, 3, [photometric]), (273, 4, [8]), (274, 3, [turn]), (277, 3, [num_samples])),
        *((278, 4, [height]), (279, 4, [len(data)]), (284, 3, [1]), (317, 3, [predictor])),
        *([] if extra is None else [(338, 3, [extra])]),
    ]
    behind = 8 + len(data) + 2 + 12 * len(entries) + 4
    directory, values = struct.pack(order + "H", len(entries)), b""
    for number, kind, numbers in entries:
        packed = struct.pack(f"{order}{len(numbers)}{'H' if kind == 3 else 'I'}", *numbers)
        if len(packed) > 4:
            packed, values = struct.pack(order + "I", behind + len(values)), values + packed
        directory += struct.pack(order + "HHI", number, kind, len(numbers)) + packed.ljust(4, b"\0")
    start = {"<": b"II*\0", ">": b"MM\0*"}[order] + struct.pack(order + "I", 8 + len(data))
    return start + data + directory + bytes(4) + values


@pytest.mark.parametrize("mode", IMAGES)
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("PNG", {}),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("TIFF", {"compression": "tiff_lzw", "tiffinfo": {317: 2}}),
        ("TIFF", {"compression": "tiff_adobe_deflate"}),
    ],
)
def test_half_transparent_pixels_are_what_pillow_makes_of_them(mode: str, kind: str, options: dict) -> None:
    image, file = IMAGES[mode], io.BytesIO()
    if kind == "TIFF" and mode == "LA":
        options = {**options, "tiffinfo": {**options.get("tiffinfo", {}), 338: 2}}
    image.save(file, kind, **options)
    with Image.open(io.BytesIO(file.getvalue())) as again:
        assert again.mode == mode, "the file has its alpha"
    np.testing.assert_allclose(decoding.decode(file.getvalue()), on_white(image), atol=1)
    packed = prepare(file.getvalue(), ImageOptions())
    assert image_info.TRANSPARENT in packed.notes
    np.testing.assert_array_equal(decoding.decode(packed.payload), decoding.decode(file.getvalue()))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("extra", [0, 1, 2, None])
def test_what_the_fourth_sample_of_a_tiff_means_is_read_off_the_file(
    order: str, dtype: Any, extra: int
) -> None:
    samples = RGBA.copy()
    if extra == 1:  # multiplied colours are never above their alpha
        samples[:, :, :3] = (samples[:, :, :3] * (samples[:, :, 3:] / 255)).round()
    payload = tiff(samples.astype(dtype) * (257 if dtype == np.uint16 else 1), order, extra=extra)
    with Image.open(io.BytesIO(payload)) as image:
        expected = on_white(image)
    np.testing.assert_allclose(decoding.decode(payload), expected, atol=1)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("turn", [1, 3, 6])
@pytest.mark.parametrize("photometric", [0, 1])
@pytest.mark.parametrize("predictor", [1, 2])
def test_gray_tiff_with_alpha(order: str, turn: int, photometric: int, predictor: int) -> None:
    gray, alpha = RGBA[:40, :, 0].copy(), RGBA[:40, :, 3]
    stored = np.dstack([255 - gray if photometric == 0 else gray, alpha])
    shown = on_white(Image.merge("LA", [Image.fromarray(gray), Image.fromarray(np.ascontiguousarray(alpha))]))
    shown = {1: shown, 3: shown[::-1, ::-1], 6: shown.swapaxes(0, 1)[:, ::-1]}[turn]
    payload = tiff(stored, order, photometric, turn=turn, predictor=predictor)
    np.testing.assert_allclose(decoding.decode(payload), shown, atol=1)


def test_gray_tiff_whose_second_sample_is_no_alpha_is_gray() -> None:
    payload = tiff(RGBA[:, :, :2], photometric=1, extra=0)
    np.testing.assert_array_equal(decoding.decode(payload), RGBA[:, :, [0, 0, 0]])
    assert image_info.TRANSPARENT not in prepare(payload, ImageOptions()).notes


def test_gray_tiff_of_16_bits_with_alpha_is_refused_in_words() -> None:
    payload = tiff(RGBA[:, :, :2].astype(np.uint16) * 257, photometric=1)
    with pytest.raises(BadPicture, match="gray with alpha, but not of 8 bits and in rows; convert it to PNG"):
        decoding.decode(payload)


def test_gray_tiff_with_alpha_that_opencv_does_not_read_is_refused_in_words() -> None:
    file = io.BytesIO()
    IMAGES["LA"].save(file, "TIFF", compression="jpeg", tiffinfo={338: 2})
    with pytest.raises(BadPicture, match="gray with alpha that OpenCV does not read; convert it to PNG"):
        decoding.decode(file.getvalue())


@pytest.mark.parametrize("depth", [1, 2, 4, 8, 16])
def test_the_transparent_level_of_a_gray_png_is_white(depth: int) -> None:
    """Compared with the PNG specification: Pillow agrees at 1 and 8 bits, and does not scale the others."""
    levels = (np.arange(64).reshape(8, 8) * 7) % (1 << min(depth, 8))
    hidden = int(levels[0, 1])
    bits = "".join(format(level, f"0{min(depth, 8)}b") for level in levels.ravel())
    rows = np.frombuffer(int(bits, 2).to_bytes(len(bits) // 8, "big"), np.uint8).reshape(8, -1)
    if depth == 16:
        rows, hidden = np.repeat(rows, 2, axis=1), hidden * 257
    payload = png(depth, 0, [row.tobytes() for row in rows], 8, struct.pack(">H", hidden))
    gray = levels * 255 // ((1 << min(depth, 8)) - 1)
    gray[levels == levels[0, 1]] = 255
    np.testing.assert_array_equal(decoding.decode(payload), np.repeat(gray[:, :, None], 3, axis=2))
    if depth in (1, 8):
        with Image.open(io.BytesIO(payload)) as image:
            np.testing.assert_array_equal(decoding.decode(payload), on_white(image))
    packed = prepare(payload, ImageOptions())
    assert image_info.TRANSPARENT in packed.notes
    np.testing.assert_array_equal(decoding.decode(packed.payload), decoding.decode(payload))


def test_a_level_next_to_the_transparent_one_of_16_bits_stays() -> None:
    rows = np.array([[0x4040, 0x4041, 0x403F, 0x4040]], ">u2")
    payload = png(16, 0, [rows.tobytes()], 4, struct.pack(">H", 0x4040))
    assert decoding.decode(payload)[0, :, 0].tolist() == [255, 64, 64, 255]


@pytest.mark.parametrize("num_pages", [1, 3])
def test_of_several_pages_the_first_is_taken_and_that_is_said(num_pages: int) -> None:
    pages = [Image.fromarray(np.full((8, 8, 3), 50 * number, np.uint8)) for number in range(1, num_pages + 1)]
    file = io.BytesIO()
    pages[0].save(file, "TIFF", save_all=True, append_images=pages[1:])
    packed = prepare(file.getvalue(), ImageOptions())
    assert (image_info.PAGES in packed.notes) == (num_pages > 1)
    assert (decoding.decode(packed.payload) == 50).all()
