"""The bytes of any picture to RGB pixels, uint8 (height, width, 3); BadPicture with the reason when they are none.

JPEG is `jpeg.py`'s; everything else (PNG, WebP, BMP, TIFF) is OpenCV's. Gray becomes RGB, 16 bits become 8, and
transparent parts show white. An EXIF orientation is ignored, as MXNet's readers do: pictures are turned upright
when they are packed.
"""

from __future__ import annotations

import struct
from typing import Any, Callable, Union

import cv2
import numpy as np
import numpy.typing as npt

from mxtrain.data import jpeg
from mxtrain.data.jpeg import BadPicture, Box, Pixels

Payload = Union[jpeg.Payload, Pixels]  # pixels are those of an earlier `decode`

Decoded = npt.NDArray[Any]  # any type, any number of channels, BGR

_PNG = b"\x89PNG\r\n\x1a\n"
# The length of a chunk's data, and what they are; a checksum of 4 bytes follows them.
_PNG_CHUNK = struct.Struct(">I4s")
_PIXELS_PER_BYTE = 8 * 1032  # at one bit a pixel and deflate's best

# Pictures are decoded in parallel already; OpenCV's own threads on top would only fight over the cores.
cv2.setNumThreads(0)
cv2.setLogLevel(0)  # we say ourselves what is wrong with a picture


def decode(payload: Payload) -> Pixels:
    """All pixels."""
    if isinstance(payload, np.ndarray):
        return payload
    return jpeg.decode(payload) if jpeg.is_jpeg(payload) else _decode_other(payload)


def decode_crop(payload: Payload, choose: Callable[[int, int], Box], target: int) -> Pixels:
    """The pixels of the box that `choose(height, width)` picks, at full scale or less, but `target` or more."""
    if isinstance(payload, np.ndarray):
        return jpeg.cut(payload, choose(*payload.shape[:2]))
    if jpeg.is_jpeg(payload):
        return jpeg.decode_crop(payload, choose, target)
    image = _decode_other(payload)
    return jpeg.cut(image, choose(*image.shape[:2]))


def _decode_other(payload: jpeg.Payload) -> Pixels:
    if not len(payload):
        raise BadPicture("it holds no bytes")
    _refuse_oversized_png(payload)
    try:
        image = cv2.imdecode(np.frombuffer(payload, np.uint8), cv2.IMREAD_UNCHANGED)
    except cv2.error as error:
        raise BadPicture(f"OpenCV cannot decode it ({error.err})") from None
    if image is None:
        start = bytes(payload[:8])
        raise BadPicture(f"it is damaged, or not a picture that OpenCV reads (it starts with {start!r})")
    return _to_rgb(_to_8_bits(image))


def _refuse_oversized_png(payload: jpeg.Payload) -> None:
    """OpenCV sets aside and clears what a damaged PNG says of its size, up to 2 GiB, before it finds it missing."""
    if bytes(payload[: len(_PNG)]) != _PNG:
        return
    place = len(_PNG)
    while place + _PNG_CHUNK.size <= len(payload):
        length, kind = _PNG_CHUNK.unpack_from(payload, place)
        if length > len(payload) - place - _PNG_CHUNK.size:
            raise BadPicture(f"its PNG chunk {kind!r} claims {length} bytes, more than the picture has left")
        if kind == b"IHDR" and length >= 8:
            width, height = struct.unpack_from(">II", payload, place + _PNG_CHUNK.size)
            if width * height > _PIXELS_PER_BYTE * len(payload):
                raise BadPicture(f"it claims {width} x {height} pixels, more than its bytes can hold")
        place += _PNG_CHUNK.size + length + 4


def _to_8_bits(image: Decoded) -> Decoded:
    if image.dtype == np.uint16:
        return cv2.convertScaleAbs(image, alpha=1 / 257)
    if image.dtype != np.uint8:
        raise BadPicture(f"its pixels are {image.dtype}; convert it to 8 or 16 bits")
    return image


def _to_rgb(image: Decoded) -> Pixels:
    if image.ndim == 2:
        return cv2.cvtColor(image, cv2.COLOR_GRAY2RGB)
    if image.shape[2] == 3:
        return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    if image.shape[2] == 4:
        return _on_white(cv2.cvtColor(image, cv2.COLOR_BGRA2RGBA))
    raise BadPicture(f"it has {image.shape[2]} channels; convert it to gray, RGB or RGBA")


def _on_white(image: Decoded) -> Pixels:
    colour, alpha = image[:, :, :3].astype(np.uint16), image[:, :, 3:].astype(np.uint16)
    shown: Pixels = ((colour * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)
    return shown
