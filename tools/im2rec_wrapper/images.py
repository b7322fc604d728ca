"""One image: decoded once to prove that it can be, and re-encoded only if asked."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import cv2
import numpy as np
import simplejpeg

DEFAULT_QUALITY = 95
_EXIF = b"Exif\0"
_JPEG_START = b"\xff\xd8"
_PNG_START = b"\x89PNG\r\n\x1a\n"

cv2.setLogLevel(0)  # we say ourselves what is wrong with a file
cv2.setNumThreads(1)  # images are done in parallel, not parts of one


class BadImage(ValueError):
    """Why an image cannot be packed."""


def prepare(data: bytes, short_side: int | None, quality: int | None) -> bytes:
    """The bytes to pack: those given, unless the image is larger than `short_side` or a quality is asked for."""
    pixels = _decode(data)
    factor = short_side / min(pixels.shape[:2]) if short_side else 1.0
    if factor >= 1 and quality is None:
        return data
    if _EXIF in data[:4096]:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)  # turns it upright
    if factor < 1:
        height, width = (max(round(side * factor), 1) for side in pixels.shape[:2])
        pixels = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)
    _, jpeg = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality or DEFAULT_QUALITY])
    return jpeg.tobytes()


def _decode(data: bytes) -> Any:
    """Pixels in the order of OpenCV; BadImage if the file is damaged."""
    if not data:
        raise BadImage("the file is empty")
    if data.startswith(_PNG_START):
        _check_png(data)
    try:
        if data.startswith(_JPEG_START):  # OpenCV would take half a JPEG for a whole one
            return simplejpeg.decode_jpeg(data, "BGR")
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    except (ValueError, cv2.error) as error:
        raise BadImage(" ".join(str(error).split())) from None
    if pixels is None:
        raise BadImage("it is not an image, or a damaged one")
    return pixels


def _check_png(data: bytes) -> None:
    """Raise for a chunk that is damaged or missing; libpng would print a line of its own."""
    at, kind = len(_PNG_START), b""
    while kind != b"IEND":
        if at + 12 > len(data):
            raise BadImage("the file ends in the middle of the image")
        length, kind = struct.unpack_from(">I4s", data, at)
        body_end = at + 8 + length
        if data[body_end : body_end + 4] != struct.pack(">I", zlib.crc32(data[at + 4 : body_end])):
            raise BadImage(f"its PNG chunk at byte {at} is damaged")
        at = body_end + 4
