"""Decoding of JPEG to RGB pixels: a whole picture, or a box of it at no higher scale than is needed.

Owns all that is peculiar to JPEG but restart markers (`restart.py`). The decoder is libjpeg-turbo with the accurate DCT
and smooth chroma, so pixels are those of OpenCV, PIL and MXNet; the fast variants would save 7%. Where `native/` is
built, it decodes boxes of ordinary pictures instead, to the same pixels in less time. A truncated or corrupt stream is
refused, never filled in.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Union

import numpy as np
import numpy.typing as npt
import simplejpeg

from mxtrain import native
from mxtrain.data.decode import restart

Payload = Union[bytes, memoryview]
Pixels = npt.NDArray[Any]  # uint8 (height, width, 3), RGB

START = b"\xff\xd8"
WITHOUT_LENGTH = (0x01, *range(0xD0, 0xD8))  # markers that no data follow
# A header of a few bytes can announce 65535 x 65535 pixels, 12 GB. Cameras stay below 2**28.
MAX_PIXELS = 1 << 28
LARGE_BYTES = 64 << 20  # of a large picture
SCALES = (1, 2, 4, 8)  # divisors of both sides at which libjpeg decodes faster than the whole


class BadPicture(ValueError):
    """The reason why some bytes are no picture; a caller that knows the record turns it into a DataError."""


class Box(NamedTuple):
    """A rectangle in a picture, in pixels."""

    top: int
    left: int
    height: int
    width: int


def is_jpeg(payload: Payload) -> bool:
    """Return whether bytes begin as a JPEG."""
    return bytes(payload[:2]) == START


def check_header(payload: Payload) -> None:
    """Raise BadPicture where the decoder does not know this kind, or it announces too many pixels."""
    _header(payload)


def decode(payload: Payload, scale: int = 1) -> Pixels:
    """Return all pixels, at 1/`scale`."""
    height, width, colorspace = _header(payload)
    return _pixels(payload, colorspace, height, width, scale)


def decode_crop(
    payload: Payload, choose: Callable[[int, int], Box], target: int, stretched: tuple[int, int] | None = None
) -> Pixels:
    """Return the pixels of the box that `choose(height, width)` picks.

    A box of at least twice `target` a side comes scaled down by 2, 4 or 8, and is still at least `target` a side:
    libjpeg skips what would be averaged away. Other scales are slower to decode than the whole. At full scale only the
    part around the box is decoded, as far as the coding allows, to the same pixels; damage elsewhere in the picture
    then goes unnoticed. The box may also come `stretched` to this height and width, as `resizing.resize` makes it: row
    by row, while it is decoded, that takes less time.
    """
    size = native.jpeg_size(payload) if native.jpeg_size else None
    header = None if size else restart.parse_header(payload)
    known = (header.height, header.width) if header else size
    height, width, colorspace = (*_bounded(*known), "RGB") if known else _header(payload)
    box = choose(height, width)
    scale = scale_of(box, target)
    if native.crop and size and scale == 1:
        height_now, width_now = box.height, box.width
        if stretched and is_linear(box, *stretched):
            height_now, width_now = stretched
        pixels = native.crop(payload, *box, height_now, width_now)
        if pixels is not None:
            return np.frombuffer(pixels, np.uint8).reshape(height_now, width_now, 3)
    header = header or restart.parse_header(payload)
    part = restart.cut(payload, header, *box, scale) if header else None
    if part is None:
        return cut(_pixels(payload, colorspace, height, width, scale), scaled(box, scale))
    image = _pixels(part.payload, colorspace, part.height, part.width, scale)
    inside = Box(box.top - part.top, box.left - part.left, box.height, box.width)
    return cut(image, scaled(inside, scale))


def cut(image: Pixels, box: Box) -> Pixels:
    """Return the pixels inside a box, as a view."""
    return image[box.top : box.top + box.height, box.left : box.left + box.width]


def scale_of(box: Box, target: int) -> int:
    """Return the largest divisor in SCALES that leaves a box at least `target` pixels a side; 1 if none does."""
    return next((scale for scale in reversed(SCALES) if min(box.height, box.width) >= scale * target), 1)


def is_linear(box: Box, height: int, width: int) -> bool:
    """Return whether resizing a box to this size weighs neighbours; else it averages all pixels.

    Weighing skips pixels when a side shrinks by more than 2; averaging costs five times as much.
    """
    return box.height < 2 * height and box.width < 2 * width


def scaled(box: Box, scale: int) -> Box:
    """Return the box at 1/`scale`, rounded outwards."""
    top, left = box.top // scale, box.left // scale
    bottom, right = -(-(box.top + box.height) // scale), -(-(box.left + box.width) // scale)
    return Box(top, left, bottom - top, right - left)


def _header(payload: Payload) -> tuple[int, int, str]:
    try:
        height, width, colorspace, _ = simplejpeg.decode_jpeg_header(payload)
    except ValueError as error:
        raise BadPicture(str(error)) from None
    except KeyError:  # libjpeg-turbo knows 4:4:1, simplejpeg has no name for it
        raise BadPicture("its chroma is sampled 4:4:1, which is not supported") from None
    return (*_bounded(height, width), colorspace)


def check_memory() -> None:
    """Raise MemoryError where memory is short: a decoder that fails for it may say so on stderr alone."""
    np.empty(LARGE_BYTES, np.uint8)


def _bounded(height: int, width: int) -> tuple[int, int]:
    if height * width > MAX_PIXELS:
        raise BadPicture(f"it announces {width} x {height} pixels, more than {MAX_PIXELS}")
    return height, width


def _pixels(payload: restart.Data, colorspace: str, height: int, width: int, scale: int = 1) -> Pixels:
    # libjpeg turns YCCK into CMYK, but leaves CMYK to RGB to its callers.
    is_cmyk = colorspace in ("CMYK", "YCCK")
    wanted = "CMYK" if is_cmyk else "RGB"
    least_height, least_width = -(-height // scale), -(-width // scale)  # of all scales, only this one's fits
    try:
        image: Pixels = simplejpeg.decode_jpeg(
            payload, wanted, min_height=least_height, min_width=least_width, min_factor=scale
        )
    except ValueError as error:
        check_memory()
        raise BadPicture(str(error)) from None
    return _cmyk_to_rgb(image) if is_cmyk else image


def _cmyk_to_rgb(image: npt.NDArray[Any]) -> Pixels:
    """Convert as PIL and OpenCV do: JPEGs hold CMYK inverted (255 is no ink), and no colour profile is applied."""
    ink, black = image[:, :, :3].astype(np.uint16), image[:, :, 3:]
    colour: Pixels = (ink * black // 255).astype(np.uint8)
    return colour
