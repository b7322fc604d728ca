"""Pictures that are stored turned or mirrored are read upright, as by Pillow, by every reader."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from mxtrain.config.values.sizes import Size
from mxtrain.data.augment import crops
from mxtrain.data.decode import decoding, orientation, pixel_cache
from mxtrain.data.decode.jpeg import Box
from mxtrain.data.packing.pictures import image_info
from mxtrain.data.packing.pictures.images import ImageOptions, prepare
from mxtrain.data.records import record_file, record_writer
from tools.im2rec_wrapper import show

KINDS = {
    "JPEG": {"quality": 95, "subsampling": 0},
    "PNG": {},
    "WEBP": {"lossless": True},
    "TIFF": {"compression": "tiff_lzw"},
}


def picture(height: int = 47, width: int = 70) -> Any:
    """A picture with another colour in each corner, and no two neighbouring lines alike."""
    down, across = np.mgrid[0:height, 0:width]
    planes = [down * 255 / height, across * 255 / width, (down + across) * 255 / (height + width)]
    return np.stack(planes, -1).astype(np.uint8)


def saved(kind: str, turn: int, image: Image.Image | None = None) -> bytes:
    image, file, exif = image or Image.fromarray(picture()), io.BytesIO(), Image.Exif()
    # Others beside it, as cameras write them.
    exif[0x010F], exif[0x0112], exif[0x011A] = "Camera", turn, 72.0
    image.save(file, kind, exif=exif, **KINDS[kind])
    return file.getvalue()


def as_pillow_turns_it(payload: bytes) -> Any:
    with Image.open(io.BytesIO(payload)) as image:
        return np.asarray(ImageOps.exif_transpose(image).convert("RGB")).astype(int)


@pytest.mark.parametrize("turn", range(1, 9))
@pytest.mark.parametrize("kind", KINDS)
def test_pictures_are_read_upright(kind: str, turn: int) -> None:
    payload = saved(kind, turn)
    expected = as_pillow_turns_it(payload)
    for given in (payload, memoryview(payload)):
        np.testing.assert_allclose(decoding.decode(given), expected, atol=2)
    np.testing.assert_allclose(decoding.decode(prepare(payload, ImageOptions()).payload), expected, atol=16)
    assert (image_info.TURNED in prepare(payload, ImageOptions()).notes) == (turn != 1)
    assert (prepare(payload, ImageOptions()).payload == payload) == (turn == 1 and kind != "TIFF")


@pytest.mark.parametrize("turn", range(1, 9))
@pytest.mark.parametrize("kind", KINDS)
def test_a_crop_is_cut_out_of_the_upright_picture(kind: str, turn: int) -> None:
    payload = saved(kind, turn)
    whole = decoding.decode(payload)
    sizes = []

    def choose(height: int, width: int) -> Box:
        sizes.append((height, width))
        return Box(5, 17, 20, 22)

    crop = decoding.decode_crop(payload, choose, 20)
    assert sizes == [whole.shape[:2]]
    np.testing.assert_array_equal(crop, whole[5:25, 17:39])


@pytest.mark.parametrize("turn", range(1, 9))
def test_a_crop_that_the_decoder_scales_down_is_upright_too(turn: int) -> None:
    payload = saved("JPEG", turn, Image.fromarray(picture(333, 501)))
    crop = decoding.decode_crop(payload, lambda height, width: Box(64, 96, 160, 200), 40)
    assert crop.shape[:2] == pytest.approx((40, 50), abs=1)
    expected = as_pillow_turns_it(payload)[64:224, 96:296]
    small = np.asarray(Image.fromarray(expected.astype(np.uint8)).resize(crop.shape[1::-1], Image.BOX))
    np.testing.assert_allclose(crop, small.astype(int), atol=8)


def test_what_a_trained_net_sees_is_the_same_packed_and_not() -> None:
    """The seven of 0.993 that was a six of 0.602 to `predict`."""
    seen = {}
    for turn in (1, 6):
        image = Image.fromarray(picture())
        image = image.transpose(Image.ROTATE_90) if turn == 6 else image
        for kind in KINDS:
            payload = saved(kind, turn, image)
            for way, data in (("as it is", payload), ("packed", prepare(payload, ImageOptions()).payload)):
                seen[kind, turn, way] = crops.centre_crop(data, None, Size(32, 32)).astype(int)
    for found in seen.values():
        np.testing.assert_allclose(found, seen["PNG", 1, "as it is"], atol=10)


def test_records_of_other_tools_are_shown_and_kept_upright(tmp_path: Path) -> None:
    path = tmp_path / "old.rec"
    payloads = [saved(kind, 6) for kind in KINDS]
    with record_writer.RecordWriter(path) as writer:
        for key, payload in enumerate(payloads):
            writer.write(key, 0, payload)
    found = record_file.open_records(path)
    kept = pixel_cache.in_memory(found, 1)
    for position, payload in enumerate(payloads):
        np.testing.assert_array_equal(decoding.decode(kept.read(position).payload), decoding.decode(payload))
    assert show.show(path, tmp_path / "sheet.png", 4, None, 0) == 4
    with Image.open(tmp_path / "sheet.png") as image:
        tiles = [np.asarray(image)[10:154, left : left + 144] for left in range(10, 4 * 154, 154)]
    for tile in tiles:  # 70 x 47 doubled is 140 high and 94 wide
        assert (tile[2:142, 25:119] != 225).any(2).mean() > 0.9
        assert (tile[:, :24] == 225).all() and (tile[:, 120:] == 225).all()


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"II*\0",
        b"II*\0" + struct.pack("<I", 1 << 30),
        b"MM\0*" + struct.pack(">IH", 8, 500),
        b"II*\0" + struct.pack("<IHHHIHH", 8, 1, 0x0112, 3, 1, 9, 0),
        b"II*\0" + struct.pack("<IHHHIHH", 8, 1, 0x0112, 3, 0, 6, 0),
        b"II*\0" + struct.pack("<IHHHIHHI", 8, 1, 0x0112, 2, 1, 6, 0, 8),
    ],
)
def test_exif_that_makes_no_sense_is_passed_over(block: bytes) -> None:
    exif = b"Exif\0\0" + block
    in_jpeg = b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif
    plain = saved("JPEG", 1)
    assert orientation.orientation_of(plain[:2] + in_jpeg + plain[2:]) == 1
    png = saved("PNG", 1)
    chunk = struct.pack(">I", len(block)) + b"eXIf" + block + struct.pack(">I", zlib.crc32(b"eXIf" + block))
    assert decoding.decode(png[:33] + chunk + png[33:]).shape == (47, 70, 3)


def test_what_is_cut_off_has_no_orientation_and_raises_nothing() -> None:
    for kind in KINDS:
        payload = saved(kind, 6)
        for end in range(0, min(len(payload), 600), 7):
            assert orientation.orientation_of(payload[:end]) in (1, 6)
            assert orientation.orientation_of(memoryview(payload)[:end]) in (1, 6)
