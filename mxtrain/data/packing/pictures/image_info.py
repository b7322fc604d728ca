"""The inspection of an image file without decoding: its kind, and all that readers of it disagree about.

Owns the headers of JPEG, PNG, WebP and BMP as far as packing has to know them, and the structure of JPEG and PNG files
from end to end. Does not own orientation and decoding (`mxtrain.data`), nor conversion (`images.py`).
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from mxtrain.data.decode import jpeg, orientation, pillow_decode, tiff
from mxtrain.data.decode.jpeg import BadPicture
from mxtrain.data.decode.orientation import PNG_START
from mxtrain.data.records import recordio

TURNED, CMYK, TRANSPARENT, DEEP, TIFF, PAGES, OTHER, ANIMATED = (
    "turned upright (their EXIF said so)",
    "made RGB (they were CMYK)",
    "put on white (they were transparent)",
    "made 8 bits deep (they had 16)",
    "made PNG (they were TIFF)",
    "cut down to page 1 (they had several)",
    "made PNG (they were GIF, AVIF or icons)",
    "cut down to their first picture (they moved)",
)

# Offset, signature and name of each kind that is refused.
_REFUSED = (
    (4, b"ftyp", "a HEIC image"),
    (0, b"\x00\x00\x00\x0cjP", "a JPEG 2000 image"),
    (0, b"\xff\x4f\xff\x51", "a JPEG 2000 image"),
    (0, b"8BPS", "a Photoshop file"),
)
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_PLAIN, _PROGRESSIVE = (0xC0, 0xC1), 0xC2
_SCAN = 0xDA


class ImageInfo(NamedTuple):
    """The findings about one file; `conversions` are needed for every reader to see the same pixels."""

    format: str
    conversions: tuple[str, ...] = ()
    is_progressive: bool = False
    num_unit_columns: int = 0  # of a JPEG: the number of coded units (MCUs) in a row
    is_checked: bool = False  # its structure was followed from end to end


def inspect(data: bytes) -> ImageInfo:
    """Inspect the bytes of a file; BadPicture where it is no image, of a kind that is refused, or visibly damaged."""
    if data.startswith(jpeg.START):
        return _jpeg(data)
    if data.startswith(PNG_START):
        return _png(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _webp(data)
    if data.startswith(b"BM"):
        has_alpha = data[28:30] == b"\x20\x00"
        return ImageInfo("BMP", (TRANSPARENT,) if has_alpha else ())
    if tiff.is_tiff(data):
        return _tiff(data)
    other = pillow_decode.kind_of(data)
    if other:
        return ImageInfo(other, (OTHER, ANIMATED) if pillow_decode.is_animated(data) else (OTHER,))
    if not data:
        raise BadPicture("the file is empty")
    for at, signature, name in _REFUSED:
        if data[at : at + len(signature)] == signature:
            raise BadPicture(f"it is {name}: convert it to JPEG or PNG")
    raise BadPicture(f"it is not an image: it looks like {recordio.describe(data[:512], len(data))}")


# JPEG


def _jpeg(data: bytes) -> ImageInfo:
    """Follow the markers up to the first scan. A file without an end marker is truncated."""
    frame, frame_type, at = b"", 0, 2
    marker = 0
    while marker != _SCAN:
        while data[at : at + 2] == b"\xff\xff":  # filling
            at += 1
        if at + 4 > len(data):
            raise BadPicture("the file ends in its header")
        if data[at] != 0xFF:
            raise BadPicture(f"it has no JPEG marker at byte {at}")
        marker = data[at + 1]
        if marker in jpeg.WITHOUT_LENGTH:
            at += 2
            continue
        length = data[at + 2] << 8 | data[at + 3]
        body, at = data[at + 4 : at + 2 + length], at + 2 + length
        if marker in _FRAMES:
            frame, frame_type = body, marker
    if data.rfind(b"\xff\xd9", at) < 0:
        raise BadPicture("the file ends in the middle of the image")
    if len(frame) < 6 or len(frame) != 6 + 3 * frame[5]:
        raise BadPicture("its JPEG frame header is damaged or missing")
    return ImageInfo(
        "JPEG",
        _turned(orientation.orientation_of(data)) + ((CMYK,) if frame[5] == 4 else ()),
        is_progressive=frame_type == _PROGRESSIVE,
        num_unit_columns=_unit_columns(frame),
        is_checked=frame_type in (*_PLAIN, _PROGRESSIVE) and frame[0] == 8,
    )


def _unit_columns(frame: bytes) -> int:
    width = frame[3] << 8 | frame[4]
    # A single component is coded block by block, whatever its sampling says.
    columns = max((sampling >> 4 for sampling in frame[7::3]), default=1) if frame[5] > 1 else 1
    return -(-width // (8 * max(columns, 1)))


# Others


def _png(data: bytes) -> ImageInfo:
    """Follow all chunks and check their checksums; libpng would print a line about a damaged one."""
    conversions = dict.fromkeys(_turned(orientation.orientation_of(data)))
    at, chunk_type = len(PNG_START), b""
    while chunk_type != b"IEND":
        if at + 12 > len(data):
            raise BadPicture("the file ends in the middle of the image")
        length, chunk_type = struct.unpack_from(">I4s", data, at)
        body_end = at + 8 + length
        if data[body_end : body_end + 4] != struct.pack(">I", zlib.crc32(data[at + 4 : body_end])):
            raise BadPicture(f"its PNG chunk at byte {at} is damaged")
        if chunk_type == b"IHDR" and length == 13:
            depth, colour = data[at + 16], data[at + 17]
            conversions.update({DEEP: None} if depth == 16 else {})
            conversions.update({TRANSPARENT: None} if colour in (4, 6) else {})
        elif chunk_type == b"tRNS":
            conversions[TRANSPARENT] = None
        elif chunk_type == b"acTL":
            raise BadPicture("it is an animated PNG: give its pictures one by one")
        at = body_end + 4
    return ImageInfo("PNG", tuple(conversions), is_checked=True)


def _webp(data: bytes) -> ImageInfo:
    chunk_type = data[12:16]
    has_alpha = False
    if chunk_type == b"VP8X" and len(data) > 20:
        if data[20] & 0x02:
            raise BadPicture("it is an animated WebP: give its pictures one by one")
        has_alpha = bool(data[20] & 0x10)
    elif chunk_type == b"VP8L" and len(data) > 24:
        has_alpha = bool(data[24] & 0x10)
    return ImageInfo(
        "WebP", _turned(orientation.orientation_of(data)) + ((TRANSPARENT,) if has_alpha else ())
    )


def _tiff(data: bytes) -> ImageInfo:
    has_alpha, has_pages = tiff.alpha(data) != tiff.OTHER, tiff.num_pages(data) > 1
    conversions = ((TRANSPARENT,) if has_alpha else ()) + ((PAGES,) if has_pages else ())
    return ImageInfo("TIFF", (TIFF, *_turned(tiff.orientation(data)), *conversions))


def _turned(exif_orientation: int) -> tuple[str, ...]:
    return (TURNED,) if exif_orientation != orientation.UPRIGHT else ()
