"""The preparation of single image files."""

from __future__ import annotations

import io
import struct
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image, features

from mxtrain import native
from mxtrain.core.errors import UsageError
from mxtrain.data import input_files
from mxtrain.data.decode import decoding as reader
from mxtrain.data.decode import pillow_decode, restart
from mxtrain.data.decode.jpeg import BadPicture
from mxtrain.data.packing.pictures import image_info, restart_intervals
from mxtrain.data.packing.pictures.images import DEFAULT_QUALITY, PLAIN, PROGRESSIVE, ImageOptions, prepare
from mxtrain.data.sources.formats.folder import read_folder

ASIS = ImageOptions()
needs_native = pytest.mark.skipif(
    native.rewrite_jpeg is None, reason="mxtrain was installed without a C compiler"
)
SUFFIXES = [".jpg", ".png", ".bmp", ".webp"]


def photo(height=60, width=90, channels=3):
    noise = np.random.default_rng(0).integers(0, 256, (height, width, channels), dtype=np.uint8)
    return cv2.GaussianBlur(noise, (0, 0), 2)


def encoded(suffix, pixels=None, *parameters):
    return cv2.imencode(suffix, photo() if pixels is None else pixels, parameters)[1].tobytes()


def rgb(payload):
    return reader.decode(payload).astype(int)


def with_orientation(jpeg, orientation, order=">"):
    start = b"MM\0*" if order == ">" else b"II*\0"
    tiff = start + struct.pack(order + "IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0)
    exif = b"Exif\0\0" + tiff
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + jpeg[2:]


# Good and bad ones


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("decodes_all", [True, False])
def test_a_good_image_goes_in_as_it_is(suffix, decodes_all):
    data = encoded(suffix)
    assert prepare(data, ImageOptions(decodes_all=decodes_all)) == (data, ())


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("share", [0.0, 0.2, 0.6, 0.95])
@pytest.mark.parametrize("decodes_all", [True, False])
def test_a_cut_image_is_bad(suffix, share, decodes_all, capfd):
    data = encoded(suffix)
    with pytest.raises(BadPicture):
        prepare(data[: int(share * len(data))], ImageOptions(decodes_all=decodes_all))
    assert capfd.readouterr().err == ""  # the decoders' own lines would not name the file


def test_a_damaged_scan_is_found_by_decoding_only():
    data = bytearray(encoded(".jpg", photo(), cv2.IMWRITE_JPEG_RST_INTERVAL, 3))
    scan = data.index(b"\xff\xda")
    data[data.index(b"\xff\xd1", scan) + 1] = 0xD5  # a restart marker out of turn
    assert prepare(bytes(data), ImageOptions(decodes_all=False)).payload == data
    with pytest.raises(BadPicture):
        prepare(bytes(data), ASIS)


def test_a_damaged_png_names_its_chunk():
    data = bytearray(encoded(".png"))
    data[len(data) // 2] ^= 16
    with pytest.raises(BadPicture, match="PNG chunk at byte"):
        prepare(bytes(data), ASIS)


def test_png_with_a_wrong_length_field_is_bad():
    body = b"IHDR" + bytes(13)
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 2**31) + body + struct.pack(">I", zlib.crc32(body))
    with pytest.raises(BadPicture):
        prepare(data, ASIS)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"once upon a time", "text file"),
        (b"<html>404</html>", "web page"),
        (b"GIF89a" + bytes(20), "Pillow cannot decode it"),
        (b"\0\0\0\x18ftypheic" + bytes(20), "HEIC"),
        (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "JPEG 2000"),
        (b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\x02" + bytes(20), "animated WebP"),
    ],
)
def test_what_is_refused_is_named(data, words):
    with pytest.raises(BadPicture, match=words):
        prepare(data, ASIS)


# What readers would disagree about


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("order", ["<", ">"])
def test_a_turned_photo_is_packed_upright(orientation, order):
    data = with_orientation(encoded(".jpg", photo()), orientation, order)
    upright = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)[:, :, ::-1]
    payload, notes = prepare(data, ASIS)
    assert notes == (() if orientation == 1 else (image_info.TURNED,))
    assert (payload == data) == (orientation == 1)
    assert rgb(payload).shape == upright.shape
    assert np.abs(rgb(payload) - upright).mean() < 2
    smaller = rgb(prepare(data, ImageOptions(short_side=30)).payload)
    assert smaller.shape[0] / smaller.shape[1] == upright.shape[0] / upright.shape[1]


def test_exif_that_makes_no_sense_is_passed_over():
    data = with_orientation(encoded(".jpg"), 9)
    assert prepare(data, ASIS).payload == data
    cut = b"\xff\xe1" + struct.pack(">H", 2 + 6 + 10) + b"Exif\0\0MM\0*" + struct.pack(">IH", 8, 500)
    data = encoded(".jpg")
    data = data[:2] + cut + data[2:]
    assert prepare(data, ASIS).payload == data


def cmyk_jpeg():
    image = pytest.importorskip("PIL.Image")
    import io

    file = io.BytesIO()
    image.fromarray(photo(channels=4), "CMYK").save(file, "JPEG", quality=95)
    return file.getvalue()


def test_cmyk_becomes_rgb():
    data = cmyk_jpeg()
    payload, notes = prepare(data, ASIS)
    assert notes == (image_info.CMYK,)
    assert image_info.inspect(payload).conversions == ()
    assert np.abs(rgb(payload) - rgb(data)).mean() < 3


@pytest.mark.parametrize("suffix", [".png", ".webp"])
def test_transparency_goes_on_white(suffix):
    pixels = np.dstack([photo(), np.full((60, 90), 255, np.uint8)])
    pixels[:20, :, 3] = 0
    data = encoded(suffix, pixels, cv2.IMWRITE_WEBP_QUALITY, 101)
    payload, notes = prepare(data, ASIS)
    assert notes == (image_info.TRANSPARENT,)
    assert payload.startswith(b"\x89PNG")
    np.testing.assert_array_equal(rgb(payload)[:20], 255)
    np.testing.assert_array_equal(rgb(payload)[20:], photo()[20:, :, ::-1])
    assert prepare(payload, ASIS) == (payload, ())


def test_16_bits_become_8():
    deep = photo().astype(np.uint16) * 257
    payload, notes = prepare(encoded(".png", deep), ASIS)
    assert notes == (image_info.DEEP,)
    np.testing.assert_array_equal(rgb(payload), photo()[:, :, ::-1])


def test_tiff_becomes_png():
    payload, notes = prepare(encoded(".tiff"), ASIS)
    assert notes == (image_info.TIFF,)
    np.testing.assert_array_equal(rgb(payload), photo()[:, :, ::-1])


@pytest.mark.parametrize(
    ("kind", "notes"),
    [
        ("GIF", (image_info.OTHER, image_info.ANIMATED)),
        ("AVIF", (image_info.OTHER, image_info.ANIMATED)),
        ("ICO", (image_info.OTHER,)),
    ],
)
def test_what_predict_reads_is_packed_as_it_reads_it(kind, notes):
    if kind == "AVIF" and not features.check("avif"):
        pytest.skip("this Pillow reads no AVIF")
    first, second = (Image.fromarray(picture) for picture in (photo(64, 64), 255 - photo(64, 64)))
    file = io.BytesIO()
    several = {} if kind == "ICO" else {"save_all": True, "append_images": [second]}
    first.save(file, kind, **several)
    payload, found = prepare(file.getvalue(), ASIS)
    assert found == notes and payload.startswith(b"\x89PNG")
    seen = pillow_decode.decode(file.getvalue())
    np.testing.assert_array_equal(rgb(payload), seen)
    assert np.abs(seen.astype(int) - np.array(first)).mean() < 10
    smaller = prepare(file.getvalue(), ImageOptions(short_side=32))
    assert rgb(smaller.payload).shape[0] == 32 and smaller.notes == notes


def test_every_kind_that_predict_reads_by_its_name_is_packed_by_its_name(tmp_path):
    for number, suffix in enumerate(input_files.PICTURES):
        (tmp_path / "a").mkdir(exist_ok=True)
        (tmp_path / "a" / f"{number}{suffix}").touch()
    assert len(read_folder(tmp_path).items) == len(input_files.PICTURES)


def test_progressive_ones_are_counted_and_become_baseline_when_re_encoded():
    data = encoded(".jpg", photo(), cv2.IMWRITE_JPEG_PROGRESSIVE, 1)
    assert prepare(data, ASIS) == (data, (PROGRESSIVE,))
    again = prepare(data, ImageOptions(quality=90))
    assert again.notes == ()
    assert not image_info.inspect(again.payload).is_progressive


# Re-encoding


def test_only_larger_images_shrink():
    data = encoded(".png", photo(60, 90))
    assert prepare(data, ImageOptions(short_side=60)).payload == data
    assert rgb(prepare(data, ImageOptions(short_side=30)).payload).shape == (30, 45, 3)
    tall = encoded(".jpg", photo(200, 61))
    assert rgb(prepare(tall, ImageOptions(short_side=60)).payload).shape == (197, 60, 3)


def test_a_huge_jpeg_shrinks_to_what_it_would_without_scaled_decoding():
    large = cv2.resize(photo(), (1200, 800), interpolation=cv2.INTER_CUBIC)
    shrunk = rgb(prepare(encoded(".jpg", large), ImageOptions(short_side=80)).payload)
    exact = cv2.resize(large, (120, 80), interpolation=cv2.INTER_AREA)[:, :, ::-1]
    assert np.abs(shrunk - exact).mean() < 2


def test_quality_re_encodes_every_image():
    data = encoded(".png")
    fine, coarse = (
        prepare(data, ImageOptions(quality=95)).payload,
        prepare(data, ImageOptions(quality=20)).payload,
    )
    assert fine.startswith(b"\xff\xd8")
    assert len(coarse) < len(fine)
    assert np.abs(rgb(fine) - photo()[:, :, ::-1]).mean() < 3


# Restart intervals


@pytest.mark.parametrize(
    ("columns", "interval"), [(32, 4), (16, 4), (25, 5), (22, 2), (21, 3), (31, 31), (1, 1), (14, 2)]
)
def test_intervals_divide_the_row(columns, interval):
    assert restart_intervals.interval(columns) == interval


@pytest.mark.parametrize("width", [16, 100, 250, 500])
def test_re_encoded_jpegs_can_be_cut_and_are_the_same_picture(width):
    pixels = photo(120, width)
    payload = prepare(encoded(".png", pixels), ImageOptions(quality=95)).payload
    header = restart.parse_header(payload)
    assert header is not None
    assert header.interval == restart_intervals.interval(-(-width // 16))
    plain = encoded(".jpg", pixels, cv2.IMWRITE_JPEG_QUALITY, DEFAULT_QUALITY)
    np.testing.assert_array_equal(rgb(payload), rgb(plain))


WAYS = [
    pytest.param(restart_intervals.NATIVE, marks=needs_native),
    pytest.param(restart_intervals.JPEGTRAN, marks=pytest.mark.system),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("progressive", [0, 1])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("sampling", ["411", "444"])
@pytest.mark.parametrize("decodes_all", [True, False])
def test_they_are_inserted_without_loss(way, progressive, channels, sampling, decodes_all):
    pixels = photo(120, 250, 3) if channels == 3 else photo(120, 250, 3)[:, :, 0]
    factor = getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{sampling}")
    data = encoded(
        ".jpg",
        pixels,
        *(cv2.IMWRITE_JPEG_PROGRESSIVE, progressive, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, factor),
    )
    payload, notes = prepare(data, ImageOptions(decodes_all=decodes_all, restarts=way))
    assert notes == ()
    assert restart.parse_header(data) is None
    assert restart.parse_header(payload) is not None
    np.testing.assert_array_equal(rgb(payload), rgb(data))
    assert prepare(data, ImageOptions(short_side=120, restarts=way)).payload == payload


@pytest.mark.parametrize("way", WAYS)
def test_damaged_ones_whose_structure_is_whole_go_in_as_they_are_and_are_counted(way):
    data = encoded(".jpg", photo(), cv2.IMWRITE_JPEG_PROGRESSIVE, 1)
    first_scan = data.index(b"\xff\xda") + 14
    damaged = data[: first_scan + 20] + data[first_scan + 60 :]
    options = ImageOptions(decodes_all=False, restarts=way)
    payload, notes = prepare(damaged, options)
    why = "damaged coded data" if way == restart_intervals.NATIVE else "refused by jpegtran"
    assert payload == damaged and notes == (f"{PLAIN}{why}", PROGRESSIVE)
    with pytest.raises(BadPicture):
        prepare(damaged, options._replace(decodes_all=True))


@pytest.mark.parametrize("way", WAYS)
def test_what_no_reader_here_decodes_is_bad_with_them_too(way):
    data = bytearray(encoded(".jpg", photo()))
    frame = data.index(b"\xff\xc0")
    data[frame + 11], data[frame + 14] = 0x14, 0x11  # 4:4:1, with too few units: every code is read in vain
    for decodes_all in (True, False):
        with pytest.raises(BadPicture):
            prepare(bytes(data), ImageOptions(decodes_all=decodes_all, restarts=way))


def test_the_ways_are_taken_in_order_and_none_is_told(monkeypatch, tmp_path, caplog):
    choose = restart_intervals.choose_way
    assert choose(False, True) == restart_intervals.NONE
    monkeypatch.setattr(native, "rewrite_jpeg", lambda payload, units: b"")
    assert choose(None, True) == choose(True, True) == restart_intervals.NATIVE
    monkeypatch.setattr(native, "rewrite_jpeg", None)
    (tmp_path / "jpegtran").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert choose(None, True) == choose(True, True) == restart_intervals.JPEGTRAN
    (tmp_path / "jpegtran").unlink()
    assert choose(None, False) == restart_intervals.NONE
    assert caplog.text == ""
    assert choose(None, True) == restart_intervals.NONE
    assert "load more slowly" in caplog.text
    with pytest.raises(UsageError, match="libjpeg-turbo-progs"):
        choose(True, False)
