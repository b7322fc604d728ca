import io
import struct
import time
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image

from mxtrain.data.decode import decoding, jpeg
from mxtrain.data.decode.jpeg import BadPicture, Box


def picture(height=60, width=90):
    """Smooth and in colour, so that JPEG keeps it nearly as it is."""
    down, across = np.mgrid[0:height, 0:width]
    planes = [down * 255 / height, across * 255 / width, (down + across) * 255 / (height + width)]
    return np.stack(planes, -1).astype(np.uint8)


def saved(pixels, kind, mode=None, **options):
    file = io.BytesIO()
    image = Image.fromarray(pixels)
    (image.convert(mode) if mode else image).save(file, kind, **options)
    return file.getvalue()


def as_pil_sees_it(payload):
    return np.asarray(Image.open(io.BytesIO(payload)).convert("RGB"))


def assert_close(actual, expected, tolerance):
    assert actual.dtype == np.uint8
    assert actual.shape == expected.shape
    assert np.abs(actual.astype(int) - expected.astype(int)).max() <= tolerance


@pytest.mark.parametrize(
    ("kind", "mode", "options"),
    [
        ("JPEG", None, {"quality": 90}),
        ("JPEG", None, {"quality": 90, "progressive": True}),
        ("JPEG", None, {"quality": 90, "subsampling": 0}),
        ("JPEG", "L", {}),
        ("JPEG", "CMYK", {"quality": 90}),
        ("PNG", None, {}),
        ("PNG", "L", {}),
        ("PNG", "1", {}),
        ("PNG", "P", {}),
        ("BMP", None, {}),
        ("WEBP", None, {"lossless": True}),
        ("TIFF", None, {}),
    ],
)
def test_every_kind_of_picture_becomes_the_rgb_that_pil_reads(kind, mode, options):
    payload = saved(picture(), kind, mode, **options)
    expected = as_pil_sees_it(payload)
    assert_close(decoding.decode(payload), expected, tolerance=2)
    assert_close(decoding.decode(memoryview(payload)), expected, tolerance=2)


def test_transparent_parts_show_white():
    alpha = np.repeat(np.arange(90, dtype=np.uint8)[None] * 2, 60, axis=0)
    payload = saved(np.dstack([picture(), alpha]), "PNG")
    white = Image.new("RGBA", (90, 60), "white")
    expected = np.asarray(Image.alpha_composite(white, Image.open(io.BytesIO(payload))).convert("RGB"))
    assert_close(decoding.decode(payload), expected, tolerance=1)


def test_sixteen_bits_become_eight():
    gray = np.arange(256, dtype=np.uint16).reshape(16, 16) * 257
    found = decoding.decode(cv2.imencode(".png", gray)[1].tobytes())
    np.testing.assert_array_equal(found, np.repeat((gray // 257).astype(np.uint8)[:, :, None], 3, axis=2))


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "no bytes"),
        (b"hello, world", "not a picture"),
        (saved(picture(), "GIF", "P"), "not a picture"),
        (saved(picture(), "PNG")[:-300], "more than the picture has left"),
        (saved(picture(), "JPEG")[:-200], "Premature end"),
        (saved(picture(), "JPEG")[:100], "JPEG"),
        (b"\xff\xd8", "JPEG"),
        (cv2.imencode(".tiff", np.ones((8, 8), np.float32))[1].tobytes(), "float32"),
    ],
)
def test_what_is_no_whole_picture_is_refused_with_a_reason(payload, reason):
    with pytest.raises(BadPicture, match=reason):
        decoding.decode(payload)


def test_a_flipped_run_of_bytes_in_a_jpeg_is_refused():
    payload = bytearray(saved(np.random.default_rng(0).integers(0, 256, (200, 200, 3), np.uint8), "JPEG"))
    payload[9000:9002] = b"\xff\xd9"
    with pytest.raises(BadPicture, match="JPEG"):
        decoding.decode(bytes(payload))


@pytest.mark.alone
def test_what_a_damaged_png_says_of_its_size_is_not_believed():
    """OpenCV would clear gigabytes for each of them."""
    payload = saved(picture(), "PNG")
    started = time.process_time()
    with pytest.raises(BadPicture, match=r"chunk b'IDAT' claims 2000000000 bytes"):
        decoding.decode(payload.replace(payload[33:41], struct.pack(">I4s", 2_000_000_000, b"IDAT")))
    wide = payload[:16] + struct.pack(">II", 30_000, 30_000)
    with pytest.raises(BadPicture, match="30000 x 30000 pixels"):
        decoding.decode(wide + struct.pack(">5BI", 8, 2, 0, 0, 0, zlib.crc32(wide[12:])) + payload[33:])
    assert time.process_time() - started < 0.5


def test_a_png_without_pixels_is_refused_before_libpng_complains(capfd: pytest.CaptureFixture[str]):
    payload = saved(picture(), "PNG")
    with pytest.raises(BadPicture, match="claims 0 x 9 pixels"):
        decoding.decode(payload[:16] + struct.pack(">II", 0, 9) + payload[24:])
    assert capfd.readouterr().err == ""


def test_a_jpeg_sampled_in_an_unheard_of_way_is_refused():
    settings = [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_411]
    payload = bytearray(cv2.imencode(".jpg", np.zeros((32, 32, 3), np.uint8), settings)[1])
    payload[payload.index(b"\xff\xc0") + 11] = 0x14  # 1 x 4 for 4 x 1
    with pytest.raises(BadPicture, match="sampl"):
        decoding.decode(bytes(payload))


def test_a_jpeg_that_announces_more_pixels_than_memory_holds_is_refused_by_its_header():
    payload = bytearray(saved(picture(), "JPEG"))
    frame = payload.index(b"\xff\xc0")
    payload[frame + 5 : frame + 9] = b"\x9c\x40\x9c\x40"
    for decode in (
        jpeg.decode,
        lambda data: jpeg.decode_crop(data, lambda height, width: Box(0, 0, 8, 8), 8),
    ):
        with pytest.raises(BadPicture, match="40000 x 40000"):
            decode(bytes(payload))


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_crop_is_that_part_of_the_whole(kind):
    payload = saved(picture(), kind)
    box = Box(top=11, left=23, height=30, width=40)
    seen = []

    def choose(height, width):
        seen.append((height, width))
        return box

    crop = decoding.decode_crop(payload, choose, target=16)
    assert seen == [(60, 90)]
    np.testing.assert_array_equal(crop, decoding.decode(payload)[11:41, 23:63])


@pytest.mark.parametrize(("target", "factor"), [(101, 1), (100, 2), (76, 2), (50, 4), (25, 8), (10, 8)])
def test_a_large_crop_comes_scaled_down_but_never_below_the_target(target, factor):
    payload = saved(picture(333, 501), "JPEG", quality=95)
    box = Box(top=101, left=55, height=200, width=260)
    crop = decoding.decode_crop(payload, lambda height, width: box, target)
    assert crop.shape[0] == pytest.approx(200 / factor, abs=2)
    assert crop.shape[1] == pytest.approx(260 / factor, abs=2)
    assert min(crop.shape[:2]) >= target
    whole = decoding.decode(payload)[101:301, 55:315]
    small = cv2.resize(whole, crop.shape[1::-1], interpolation=cv2.INTER_AREA)
    # A pixel of the scaled grid covers `factor` of the full one, over which this ramp rises by little.
    assert_close(crop, small, tolerance=2 + factor)
