"""EXIF orientation: reading it from a picture's bytes, and turning pixels and boxes by it.

Of the eight orientations 1 is upright; 5 to 8 have rows and columns exchanged; some are then mirrored, or upside down,
or both. Owns where each format keeps its EXIF block; `tiff.py` reads the block itself.
"""

from __future__ import annotations

import struct
from typing import Iterator

import numpy as np

from mxtrain.data.decode import jpeg, tiff
from mxtrain.data.decode.jpeg import Box, Payload
from mxtrain.data.fields import Array

UPRIGHT = 1

PNG_START = b"\x89PNG\r\n\x1a\n"
# The length of a chunk's data and its type; the data and a checksum of 4 bytes follow.
_PNG_CHUNK = struct.Struct(">I4s")
_EXIF = b"Exif\0\0"
_SCAN, _APP1 = 0xDA, 0xE1


def orientation_of(payload: Payload) -> int:
    """Return the orientation of an encoded picture, 1 to 8. Always 1 for TIFF, which OpenCV turns upright itself."""
    if jpeg.is_jpeg(payload):
        return _in_jpeg(payload)
    start = bytes(payload[:16])
    if start[:4] == b"RIFF" and start[8:] == b"WEBPVP8X":
        return _in_webp(payload)
    exif = (payload[at:end] for chunk_type, at, end in png_chunks(payload) if chunk_type == b"eXIf")
    return tiff.orientation(next(exif, b""))


def upright(pixels: Array, orientation: int) -> Array:
    """Return stored pixels turned upright, as a copy where that is needed."""
    if orientation == UPRIGHT:
        return pixels
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return np.ascontiguousarray(pixels)


def upright_size(height: int, width: int, orientation: int) -> tuple[int, int]:
    """Return height and width of the upright picture, from those of the stored one."""
    return (width, height) if orientation >= 5 else (height, width)


def stored(box: Box, height: int, width: int, orientation: int) -> Box:
    """Return the box of the stored picture, of this size, that becomes `box` in the upright one."""
    upright_height, upright_width = upright_size(height, width, orientation)
    top, left, high, wide = box
    if orientation in (3, 4, 7, 8):
        top = upright_height - top - high
    if orientation in (2, 3, 6, 7):
        left = upright_width - left - wide
    return Box(left, top, wide, high) if orientation >= 5 else Box(top, left, high, wide)


def png_chunks(payload: Payload) -> Iterator[tuple[bytes, int, int]]:
    """Yield type, start and end of the data of each chunk of a PNG up to its last; an end may lie behind the file's."""
    at = len(PNG_START) if bytes(payload[: len(PNG_START)]) == PNG_START else len(payload)
    while at + _PNG_CHUNK.size <= len(payload):
        length, chunk_type = _PNG_CHUNK.unpack_from(payload, at)
        start = at + _PNG_CHUNK.size
        yield chunk_type, start, start + length
        at = start + length + 4 if chunk_type != b"IEND" else len(payload)


def _in_jpeg(payload: Payload) -> int:
    """Read the first EXIF block before the scan."""
    at = 2
    while at + 4 <= len(payload) and payload[at] == 0xFF:
        marker = payload[at + 1]
        if marker == _SCAN:
            break
        if marker in jpeg.WITHOUT_LENGTH or marker == 0xFF:  # 0xff: filling
            at += 1 if marker == 0xFF else 2
            continue
        end = at + 2 + (payload[at + 2] << 8 | payload[at + 3])
        if marker == _APP1 and bytes(payload[at + 4 : at + 10]) == _EXIF:
            return tiff.orientation(payload[at + 10 : end])
        at = end
    return UPRIGHT


def _in_webp(payload: Payload) -> int:
    at = 12
    while at + 8 <= len(payload):
        chunk_type, length = struct.unpack_from("<4sI", payload, at)
        if chunk_type == b"EXIF":
            block = payload[at + 8 : at + 8 + length]
            return tiff.orientation(block[len(_EXIF) :] if bytes(block[: len(_EXIF)]) == _EXIF else block)
        at += 8 + length + length % 2
    return UPRIGHT
