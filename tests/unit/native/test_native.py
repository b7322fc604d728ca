"""The C extension returns what the code it replaces returns, or leaves the work to that code."""

from __future__ import annotations

import io
import math
import platform
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any, Iterator

import cv2
import numpy as np
import pytest
import simplejpeg
from PIL import Image

from mxtrain import native
from mxtrain.data.augment import crops, transforms
from mxtrain.data.loading import order
from tests.support.breadth import slow_cases
from tests.support.data.encoded_jpegs import SAMPLINGS, assembled, encoded, picture, segment

needs_native = pytest.mark.skipif(native.crop is None, reason="mxtrain was installed without a C compiler")
SIZES = [(375, 500), (64, 64), (33, 47), (16, 16), (17, 5), (8, 9), (1, 31), (200, 18)]


def boxes(
    rng: np.random.Generator, height: int, width: int, count: int
) -> Iterator[tuple[int, int, int, int]]:
    yield 0, 0, height, width
    for _ in range(count):
        high, wide = int(rng.integers(1, height + 1)), int(rng.integers(1, width + 1))
        yield int(rng.integers(0, height - high + 1)), int(rng.integers(0, width - wide + 1)), high, wide


def cropped(payload: bytes, box: tuple[int, int, int, int]) -> Any:
    found = native.crop(payload, *box)  # type: ignore[misc]
    return None if found is None else np.frombuffer(found, np.uint8).reshape(box[2], box[3], 3)


def test_it_is_built_where_it_can_be() -> None:
    if shutil.which("cc") and platform.machine() == "x86_64" and "avx2" in Path("/proc/cpuinfo").read_text():
        assert native.crop is not None, (
            "run `make env` or `pip install -e .` again: the part in C was not built"
        )


@needs_native
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("interval", [0, 3, *slow_cases(1, 4, 1000)])
def test_a_box_is_what_libjpeg_decodes_there(sampling: str, interval: int) -> None:
    rng = np.random.default_rng([interval, SAMPLINGS[sampling]])
    for height, width in SIZES:
        for quality, noise in ((95, 20.0), (50, 5.0), (100, 120.0), (5, 60.0)):
            payload = encoded(picture(rng, height, width, noise), quality, sampling, interval)
            whole = simplejpeg.decode_jpeg(payload)
            for top, left, high, wide in boxes(rng, height, width, 6):
                found = cropped(payload, (top, left, high, wide))
                assert found is not None, (height, width, quality)
                np.testing.assert_array_equal(found, whole[top : top + high, left : left + wide])


@needs_native
def test_optimised_tables_and_extra_segments_are_understood() -> None:
    rng = np.random.default_rng(7)
    image = picture(rng, 120, 160, 30)
    payload = encoded(image, 90, "420", optimize=True, comment=b"a comment", exif=Image.Exif())
    np.testing.assert_array_equal(
        cropped(payload, (10, 20, 90, 100)), simplejpeg.decode_jpeg(payload)[10:100, 20:120]
    )


@needs_native
def test_coefficients_past_16_bits_wrap_as_libjpegs_do() -> None:
    """Quantizers far larger than the encoder's: sums overflow, in the same way; where all is flat, in another."""
    rng = np.random.default_rng(8)
    stripes = np.tile(np.repeat(rng.integers(0, 256, (1, 64, 1), np.uint8), 3, 2), (64, 1, 1))
    for image in (picture(rng, 64, 64, 10), picture(rng, 64, 64, 100), np.zeros_like(stripes), stripes):
        payload = bytearray(encoded(image, 60, "420"))
        for at in (place for place in range(len(payload)) if payload[place : place + 2] == b"\xff\xdb"):
            payload[at + 5 : at + 69] = bytes(rng.integers(200, 256, 64, dtype=np.uint8))
        np.testing.assert_array_equal(
            cropped(bytes(payload), (0, 0, 64, 64)), simplejpeg.decode_jpeg(payload)
        )


@needs_native
def test_other_jpegs_are_left_to_libjpeg() -> None:
    image = picture(np.random.default_rng(9), 40, 40, 10)
    gray, cmyk = io.BytesIO(), io.BytesIO()
    Image.fromarray(image[:, :, 0]).save(gray, "JPEG")
    Image.fromarray(image).convert("CMYK").save(cmyk, "JPEG")
    plain = encoded(image, 90, "420")
    of_rgb = simplejpeg.encode_jpeg(image, colorspace="RGB", colorsubsampling="440")
    for payload in (
        gray.getvalue(),
        cmyk.getvalue(),
        encoded(image, 90, "420", progressive=True),
        of_rgb,
        plain[:-2],
        plain[:-40],
        plain + b"behind",
        with_adobe(plain, b"JFOF", transform=0),
        with_adobe(plain, b"JFOF", transform=2),
        b"",
        b"\xff\xd8",
        b"\xff\xd8\xff\xd9",
        b"not a picture at all",
    ):
        assert native.crop(payload, 0, 0, 8, 8) is None  # type: ignore[misc]


def with_adobe(payload: bytes, jfif: bytes, transform: int) -> bytes:
    marker = segment(0xEE, b"Adobe\0\x64\0\0\0\0" + bytes([transform]))
    return (payload[:2] + marker + payload[2:]).replace(b"JFIF", jfif)


@needs_native
def test_without_a_jfif_marker_colours_are_those_that_libjpeg_guesses() -> None:
    """As in photographs of cameras, which begin with Exif."""
    plain = encoded(picture(np.random.default_rng(14), 40, 40, 10), 90, "420")
    named = bytearray(plain.replace(b"JFIF", b"JFOF"))
    for place, identifier in zip((10, 13, 16), b"YUV"):
        for marker in (b"\xff\xc0", b"\xff\xda"):
            at = named.index(marker)
            named[at + (place if marker == b"\xff\xc0" else 5 + 2 * (place - 10) // 3)] = identifier
    for payload in (
        plain.replace(b"JFIF", b"JFOF"),
        bytes(named),
        with_adobe(plain, b"JFOF", transform=1),
        with_adobe(plain, b"JFIF", transform=0),
    ):
        np.testing.assert_array_equal(cropped(payload, (0, 0, 40, 40)), simplejpeg.decode_jpeg(payload))


GRAY = ("00" * 6, {1: b"\0"}, {1: b"\0"})  # differences of 0, and blocks that end at once


@needs_native
@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(assembled("00" * 6, {1: b"\0\1"}, {1: b"\0"}), id="a code that is all ones"),
        pytest.param(assembled(*GRAY, versions=(1, 2)), id="another JFIF"),
        pytest.param(assembled(*GRAY, width=65501), id="wider than libjpeg takes"),
        pytest.param(assembled(*GRAY, height=65501), id="higher than libjpeg takes"),
    ],
)
def test_what_libjpeg_refuses_is_left_to_it(payload: bytes) -> None:
    with pytest.raises(ValueError):
        simplejpeg.decode_jpeg(payload)
    assert native.crop(payload, 0, 0, 8, 8) is None  # type: ignore[misc]


@needs_native
def test_sums_past_32_bits_are_left_to_libjpeg() -> None:
    unit = ("0" + "1" * 15 + "0") * 4 + "100" * 2  # luma brighter by 32767 each time
    payload = assembled(unit * 4094 * 5, {1: b"\x0f", 2: b"\0"}, {1: b"\0"}, height=80, width=65500)
    assert native.crop(payload, 0, 0, 48, 65500) is not None  # type: ignore[misc]
    assert native.crop(payload, 0, 0, 80, 65500) is None  # type: ignore[misc]


@needs_native
def test_the_least_that_is_a_jpeg_is_decoded() -> None:
    payload = assembled(*GRAY)
    np.testing.assert_array_equal(cropped(payload, (0, 0, 16, 16)), simplejpeg.decode_jpeg(payload))


@needs_native
@pytest.mark.parametrize(
    "box", [(-1, 0, 8, 8), (0, 0, 0, 8), (0, 33, 8, 8), (0, 0, 41, 8), (2**31 - 1, 0, 8, 8)]
)
def test_a_box_outside_the_picture_is_refused(box: tuple[int, int, int, int]) -> None:
    payload = encoded(picture(np.random.default_rng(10), 40, 40, 10), 90, "420")
    with pytest.raises(ValueError, match="not inside"):
        native.crop(payload, *box)  # type: ignore[misc]


@needs_native
def test_a_damaged_scan_is_decoded_as_libjpeg_does_or_left_to_it() -> None:
    rng = np.random.default_rng(11)
    num_decoded = 0
    for trial in range(1500):
        sampling = list(SAMPLINGS)[trial % 3]
        payload = bytearray(
            encoded(picture(rng, 48, 64, 30), 85, sampling, interval=(0, 1, 2)[trial // 3 % 3])
        )
        scan_at = bytes(payload).index(b"\xff\xda")
        start = scan_at if trial % 4 else 2
        for at in rng.integers(start, len(payload), rng.integers(1, 4)).tolist():
            payload[at] = int(rng.integers(0, 256))
        found = cropped(bytes(payload), (0, 0, 8, 8)) if size_of(bytes(payload)) == (48, 64) else None
        if found is None:
            continue
        try:
            whole = simplejpeg.decode_jpeg(bytes(payload))
        except ValueError:
            continue  # damaged behind the box
        num_decoded += 1
        np.testing.assert_array_equal(found, whole[:8, :8])
    assert num_decoded > 100


def size_of(payload: bytes) -> tuple[int, int]:
    """Return height and width, or None where damage hit the frame's marker."""
    at = payload.find(b"\xff\xc0")
    return struct.unpack(">HH", payload[at + 5 : at + 9]) if at >= 0 else (0, 0)  # type: ignore[return-value]


@needs_native
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
@pytest.mark.parametrize("shape", [(224, 224), (5, 3), (17, 33), (1, 16), (8, 8)])
def test_planes_are_numpys(dtype: Any, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(12)
    image = rng.integers(0, 256, (shape[0] + 2, shape[1] + 4, 3), dtype=np.uint8)[1:-1, 3:-1]
    views = (image, image[::-1], image[:, ::-1])
    scale, offset = rng.uniform(0.001, 1, 3).tolist(), rng.uniform(-2, 2, 3).tolist()
    ours, numpys = (np.empty((len(views), 3, *shape), dtype) for _ in range(2))
    for view, planes in zip(views, ours):
        crops.write_planes(view, planes, scale, offset)
    monkeypatch.setattr(native, "planes", None)
    for view, planes in zip(views, numpys):
        crops.write_planes(view, planes, scale, offset)
    np.testing.assert_array_equal(ours, numpys)


CROPS = ["resized_crop+flip+colour_jitter", "pad_crop:pad=4", "none"]


@needs_native
@pytest.mark.parametrize("interval", [0, 4])
@pytest.mark.parametrize("spec", CROPS)
@pytest.mark.parametrize("kind", ["upright", "turned", "png"])
def test_a_sample_is_the_same_without_it(
    spec: str, interval: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    transform = transforms.train_transform(spec, 96)
    image = picture(np.random.default_rng(13), 256, 384, 25)
    exif = Image.Exif()
    exif[0x0112] = 6 if kind == "turned" else 1
    payload = encoded(image, 90, "420", interval)
    payload = payload[:2] + segment(0xE1, exif.tobytes()) + payload[2:]
    if kind == "png":
        payload = cv2.imencode(".png", image[:150, :180])[1].tobytes()
    with_it, without = (np.empty((8, 3, 96, 96), np.float32) for _ in range(2))
    for sample, out in enumerate(with_it):
        transform(payload, order.sample_rng(0, 0, sample), out)
    for function in ("crop", "resize", "planes"):
        monkeypatch.setattr(native, function, None)
    for sample, out in enumerate(without):
        transform(payload, order.sample_rng(0, 0, sample), out)
    np.testing.assert_array_equal(with_it, without)


def a_size_and_another(rng: np.random.Generator) -> tuple[int, ...]:
    """Return sides of which each shrinks to more than half, or grows; often 1, or as long as before."""
    sides = [int(rng.integers(1, limit)) for limit in rng.choice([2, 6, 60, 300], 2)]
    factors = rng.choice([1.0, 1.999, *np.exp(rng.uniform(np.log(0.05), np.log(1.999), 4))], 2)
    return (*sides, *(max(1, math.ceil(side / factor)) for side, factor in zip(sides, factors)))


@needs_native
def test_resized_pixels_are_opencvs() -> None:
    rng = np.random.default_rng(15)
    for trial in range(3000):
        height, width, to_height, to_width = a_size_and_another(rng)
        to_height, to_width = min(to_height, 400), min(to_width, 400)
        if height >= 2 * to_height or width >= 2 * to_width:
            continue
        image = rng.integers(0, 256, (height, width + trial % 3, 3), np.uint8)[:, :width]
        if trial % 10 == 0:
            image[:] = 255
        found = native.resize(image, to_height, to_width)  # type: ignore[misc]
        assert found is not None, image.shape
        ours = np.frombuffer(found, np.uint8).reshape(to_height, to_width, 3)
        opencvs = cv2.resize(image, (to_width, to_height), interpolation=cv2.INTER_LINEAR)
        np.testing.assert_array_equal(ours, opencvs, f"{image.shape} to {ours.shape}")


@needs_native
@pytest.mark.parametrize("turned", [False, True])
def test_a_long_side_is_resized_as_opencv_does_it_or_left_to_it(turned: bool) -> None:
    """There a position has few bits for its fraction."""
    image = np.random.default_rng(16).integers(0, 256, (3, 60000, 3), np.uint8)
    for length in (65500, 60001, 59999, 30001):
        image, size = (image.swapaxes(0, 1).copy(), (3, length)) if turned else (image, (length, 3))
        found = native.resize(image, *size[::-1])  # type: ignore[misc]
        if found is not None:
            ours = np.frombuffer(found, np.uint8).reshape(*size[::-1], 3)
            np.testing.assert_array_equal(ours, cv2.resize(image, size, interpolation=cv2.INTER_LINEAR))
        image = image.swapaxes(0, 1).copy() if turned else image


@needs_native
def test_what_shrinks_to_less_than_half_is_left_to_opencv() -> None:
    image = np.zeros((8, 100, 3), np.uint8)
    assert native.resize(image, 8, 40) is None  # type: ignore[misc]
    assert native.crop(encoded(image, 90, "420"), 0, 0, 8, 100, 8, 40) is None  # type: ignore[misc]


@needs_native
@pytest.mark.parametrize("size", [(0, 8), (8, 0), (-1, 8), (65501, 8)])
def test_a_size_that_no_picture_has_is_refused(size: tuple[int, int]) -> None:
    image = np.zeros((8, 8, 3), np.uint8)
    with pytest.raises(ValueError, match="sides are"):
        native.resize(image, *size)  # type: ignore[misc]
    with pytest.raises(ValueError, match="sides are"):
        native.crop(encoded(image, 90, "420"), 0, 0, 8, 8, *size)  # type: ignore[misc]


@needs_native
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_box_comes_resized_as_opencv_resizes_its_pixels(sampling: str) -> None:
    rng = np.random.default_rng(17)
    for height, width in SIZES:
        payload = encoded(picture(rng, height, width, 30), 90, sampling, interval=3)
        for box in boxes(rng, height, width, 8):
            to_height, to_width = (int(rng.integers(side // 2 + 1, 2 * side + 2)) for side in box[2:])
            found = native.crop(payload, *box, to_height, to_width)  # type: ignore[misc]
            opencvs = cv2.resize(cropped(payload, box), (to_width, to_height), interpolation=cv2.INTER_LINEAR)
            np.testing.assert_array_equal(
                np.frombuffer(found, np.uint8).reshape(to_height, to_width, 3), opencvs
            )


def test_checksums_are_zlibs() -> None:
    data = np.random.default_rng(18).integers(0, 256, 3000, np.uint8).tobytes()
    for length in (*range(300), 1000, 2999):
        for start in (0, 1):
            part, before = memoryview(data)[start : start + length], zlib.crc32(data[:length])
            assert native.crc32(part) == zlib.crc32(part)
            assert native.crc32(part, before) == zlib.crc32(part, before)
    assert native.crc32(bytes(1 << 20), 2**32 - 1) == zlib.crc32(bytes(1 << 20), 2**32 - 1)


@needs_native
def test_planes_of_another_shape_are_refused() -> None:
    image = np.zeros((4, 5, 3), np.uint8)
    for out in (np.zeros((3, 5, 4), np.float32), np.zeros((3, 4, 5), np.int32), np.zeros((4, 5), np.float32)):
        with pytest.raises(ValueError, match="expected RGB pixels"):
            native.planes(image, out, (1, 1, 1), (0, 0, 0))  # type: ignore[misc]


@needs_native
def test_one_built_from_other_sources_is_left_out_in_one_line() -> None:
    code = (
        "import logging; logging.basicConfig(format='%(message)s')\n"
        "from mxtrain.native import _built; _built.INTERFACE -= 1\n"
        "import importlib, sys; from mxtrain import native\n"
        "native = importlib.reload(native); print(native.crop, native.crc32(b'abc'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["None", str(zlib.crc32(b"abc"))]
    assert "run `make env`" in done.stderr and len(done.stderr.splitlines()) == 1
