"""JPEGs rewritten with restart markers have the same coefficients, pixels and metadata, or are refused and why."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import simplejpeg
from PIL import Image

from mxtrain import native
from mxtrain.data.decode import restart
from tests.support.data.encoded_jpegs import SAMPLINGS, assembled, picture, segment

pytestmark = pytest.mark.skipif(
    native.rewrite_jpeg is None, reason="mxtrain was installed without a C compiler"
)
SIZES = [(1, 1), (8, 8), (17, 5), (33, 47), (64, 64), (9, 300), (160, 120)]
CV2_SAMPLINGS = {"411": 0x411111, "422": 0x211111, "440": 0x121111, "420": 0x221111, "444": 0x111111}
EXIF = segment(0xE1, b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0")
OTHERS = (
    segment(0xE2, b"ICC_PROFILE\0\1\1" + bytes(300)) + segment(0xFE, b"a comment") + segment(0xE0, b"JFXX\0")
)


def rewritten(payload: bytes, interval: int = 4) -> bytes:
    """Return the rewritten JPEG; a refusal fails the test."""
    found = native.rewrite_jpeg(payload, interval)  # type: ignore[misc]
    assert isinstance(found, bytes), found
    return found


def refusal(payload: bytes) -> str:
    found = native.rewrite_jpeg(payload, 4)  # type: ignore[misc]
    assert isinstance(found, str), "it was rewritten"
    return found


def saved(image: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", **options)
    return file.getvalue()


def of_pil(image: Any, quality: int, sampling: str) -> bytes:
    return saved(image, quality=quality, subsampling=SAMPLINGS[sampling])


def of_pil_progressive(image: Any, quality: int, sampling: str) -> bytes:
    return saved(image, quality=quality, subsampling=SAMPLINGS[sampling], progressive=True)


def of_cv2(image: Any, quality: int, sampling: str, *options: int) -> bytes:
    factor = [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, CV2_SAMPLINGS[sampling], *options]
    return bytes(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality, *factor])[1].tobytes())


def of_cv2_progressive(image: Any, quality: int, sampling: str) -> bytes:
    return of_cv2(image, quality, sampling, cv2.IMWRITE_JPEG_PROGRESSIVE, 1, cv2.IMWRITE_JPEG_RST_INTERVAL, 3)


def of_cv2_restarts(image: Any, quality: int, sampling: str) -> bytes:
    return of_cv2(image, quality, sampling, cv2.IMWRITE_JPEG_RST_INTERVAL, 5, cv2.IMWRITE_JPEG_OPTIMIZE, 1)


def of_gray(image: Any, quality: int, sampling: str) -> bytes:
    progressive = {"progressive": True} if sampling == "444" else {}
    return saved(image[:, :, 1], quality=quality, **progressive)


def of_simplejpeg(image: Any, quality: int, sampling: str) -> bytes:
    return bytes(simplejpeg.encode_jpeg(image, quality, colorsubsampling=sampling))


ENCODERS = [
    *((of_pil, sampling) for sampling in SAMPLINGS),
    *((of_pil_progressive, sampling) for sampling in SAMPLINGS),
    *((of_cv2, sampling) for sampling in CV2_SAMPLINGS),
    *((of_cv2_progressive, sampling) for sampling in CV2_SAMPLINGS),
    *((of_cv2_restarts, sampling) for sampling in ("411", "420")),
    (of_simplejpeg, "440"),
    (of_gray, "420"),
    (of_gray, "444"),
]


@pytest.mark.parametrize(("encode", "sampling"), ENCODERS)
def test_pixels_are_the_same_to_the_bit(encode: Any, sampling: str) -> None:
    rng = np.random.default_rng(list(sampling.encode()))
    for height, width in SIZES:
        for quality, noise in ((1, 30.0), (50, 5.0), (90, 25.0), (100, 90.0)):
            payload = encode(picture(rng, height, width, noise), quality, sampling)
            interval = int(rng.integers(1, 9))
            found = rewritten(payload, interval)
            np.testing.assert_array_equal(simplejpeg.decode_jpeg(found), simplejpeg.decode_jpeg(payload))
            assert Image.open(io.BytesIO(found)).quantization == Image.open(io.BytesIO(payload)).quantization  # type: ignore[attr-defined]
            assert rewritten(found, interval) == found
            header = restart.parse_header(rewritten(payload, -(-width // 8)))
            assert header is None or header.interval == -(-width // 8)


def test_optimised_codes_pay_for_the_markers() -> None:
    payload = saved(picture(np.random.default_rng(1), 375, 500, 6), quality=90, subsampling=2)
    assert len(rewritten(payload, 4)) < len(payload)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("JFIF", "JFIF others"),
        ("", "JFIF others"),
        ("JFIF Exif", "JFIF Exif others"),
        ("Exif JFIF", "Exif JFIF others"),
        ("Exif", "Exif others"),
        ("Adobe1", "JFIF Adobe1 others"),
        ("JFIF Adobe0", "JFIF Adobe0 others"),
        ("Adobe0", "Adobe0 others"),
    ],
)
def test_metadata_are_kept_and_colours_stay(start: str, expected: str) -> None:
    jfif = segment(0xE0, b"JFIF\0\1\1\1\1\x2c\1\x2c\0\0")
    named = {"JFIF": jfif, "Exif": EXIF, "others": OTHERS}
    named.update({f"Adobe{kind}": segment(0xEE, b"Adobe\0\x64\0\0\0\0" + bytes([kind])) for kind in (0, 1)})
    named["default JFIF"] = segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0")
    if "JFIF" not in start:
        expected = expected.replace("JFIF", "default_JFIF")
    before, after = (
        b"".join(named[name.replace("_", " ")] for name in words.split()) for words in (start, expected)
    )
    for progressive in (False, True):
        plain = saved(picture(np.random.default_rng(2), 40, 50, 20), progressive=progressive)
        payload = plain[:2] + before + OTHERS + plain[plain.index(b"\xff\xdb") :] + b"behind"
        found = rewritten(payload)
        assert found[: found.index(b"\xff\xdb")] == b"\xff\xd8" + after
        assert found.endswith(b"\xff\xd9")
        np.testing.assert_array_equal(simplejpeg.decode_jpeg(found), simplejpeg.decode_jpeg(payload))


def with_quantizers(payload: bytes, bits: int, factor: int) -> bytes:
    """Return the JPEG with the first table of quantizers in 8 or 16 bits, times a factor."""
    at = payload.index(b"\xff\xdb")
    wide = b"".join(
        (factor * quantizer).to_bytes(bits // 8, "big") for quantizer in payload[at + 5 : at + 69]
    )
    return payload[:at] + segment(0xDB, bytes([bits // 8 - 1 << 4]) + wide) + payload[at + 69 :]


def test_quantizers_of_16_bits_are_kept() -> None:
    plain = saved(picture(np.random.default_rng(3), 40, 50, 20), quality=50)
    narrow, wide = (with_quantizers(plain, 16, factor) for factor in (1, 20))
    assert rewritten(narrow) == rewritten(plain)
    np.testing.assert_array_equal(simplejpeg.decode_jpeg(rewritten(wide)), simplejpeg.decode_jpeg(wide))


def test_what_cannot_be_rewritten_is_refused_with_the_reason() -> None:
    rng = np.random.default_rng(4)
    plain, progressive = (saved(picture(rng, 40, 50, 20), progressive=kind) for kind in (False, True))
    last_scan = progressive.rindex(b"\xff\xda")
    twice = progressive[:-2] + progressive[last_scan:]
    cmyk = io.BytesIO()
    Image.fromarray(picture(rng, 40, 50, 20)).convert("CMYK").save(cmyk, "JPEG")
    frame, scan = plain.index(b"\xff\xc0"), plain.index(b"\xff\xda")

    def changed(at: int, data: bytes) -> bytes:
        return plain[:at] + data + plain[at + len(data) :]

    too_dark = assembled("0" * 16 + "1" * 11 + "10" * 6, {1: b"\x0c", 2: b"\0"}, {1: b"\0"})
    for payload, reason in [
        (b"", "a damaged header"),
        (b"\xff\xd8\xff\xd9", "cut short"),
        (plain[:60], "cut short"),
        (plain[:-40], "damaged coded data"),
        (plain[:-2], "damaged coded data"),
        (plain[: scan + 14] + plain[scan + 300 :], "damaged coded data"),
        (progressive[:last_scan] + b"\xff\xd9", "not all scans, or one again"),
        (twice, "not all scans, or one again"),
        (cmyk.getvalue(), "neither baseline nor"),
        (changed(frame + 1, b"\xc9"), "neither baseline nor"),
        (changed(frame + 4, b"\x0c"), "neither baseline nor"),
        (changed(frame + 5, b"\xff\xdc\xff\xdc"), "damaged coded data"),  # 4 billion pixels
        (changed(frame + 5, b"\0\0"), "a damaged header"),
        (changed(frame + 11, b"\x44"), "sampled as one scan cannot hold it"),
        (changed(scan + 6, b"\x33"), "a damaged header"),
        (too_dark, "damaged coded data"),
    ]:
        assert refusal(payload).startswith(reason), reason
    for interval in (0, -1, 65536):
        with pytest.raises(ValueError, match="interval"):
            native.rewrite_jpeg(plain, interval)  # type: ignore[misc]


def test_a_number_too_large_for_baseline_is_refused() -> None:
    # A difference of 4095, which 8-bit files do not have, and then five blocks that add nothing.
    payload = assembled("10" + "1" * 12 + "0" + "00" * 5, {1: b"\0", 2: b"\x0c"}, {1: b"\0"})
    simplejpeg.decode_jpeg(payload)
    assert refusal(payload) == "a coefficient larger than baseline has"


@pytest.mark.parametrize("progressive", [False, True])
def test_of_damaged_ones_only_those_are_rewritten_that_libjpeg_decodes(progressive: bool) -> None:
    rng = np.random.default_rng(5)
    num_rewritten = 0
    for trial in range(600):
        image = picture(rng, 40, 56, 20)
        payload = bytearray(saved(image, quality=70, subsampling=trial % 3, progressive=progressive))
        start = 2 if trial % 2 else bytes(payload).index(b"\xff\xda")
        for at in rng.integers(start, len(payload), rng.integers(1, 3)).tolist():
            payload[at] = int(rng.integers(0, 256))
        found = native.rewrite_jpeg(bytes(payload), 3)  # type: ignore[misc]
        if isinstance(found, str):
            continue
        try:
            simplejpeg.decode_jpeg_header(bytes(payload))
        except (ValueError, KeyError):
            continue  # sampled in a way that simplejpeg does not decode
        num_rewritten += 1
        np.testing.assert_array_equal(simplejpeg.decode_jpeg(found), simplejpeg.decode_jpeg(bytes(payload)))
    assert num_rewritten > 50


@pytest.mark.system
@pytest.mark.parametrize(("encode", "sampling"), ENCODERS)
def test_it_writes_what_jpegtran_writes(encode: Any, sampling: str, tmp_path: Path) -> None:
    """The same coefficients one by one, and all else: an independent proof, where it is installed."""
    rng = np.random.default_rng(6)
    (tmp_path / "scans").write_text("0;\n1 2;\n")
    for height, width in SIZES:
        for quality in (3, 60, 95):
            plain = encode(picture(rng, height, width, 25), quality, sampling)
            payloads = [plain, plain[:2] + EXIF + OTHERS + plain[2:]]
            if encode is not of_gray:
                payloads.append(jpegtran(plain, "-scans", str(tmp_path / "scans")))
            for payload in payloads:
                expected = jpegtran(payload, "-copy", "all", "-optimize", "-restart", "3B")
                assert rewritten(payload, 3) == expected, (height, width, quality)


def jpegtran(payload: bytes, *options: str) -> bytes:
    return subprocess.run(["jpegtran", *options], input=payload, check=True, capture_output=True).stdout
