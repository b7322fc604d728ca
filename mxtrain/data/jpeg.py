"""JPEG bytes to RGB pixels: all of them, or those of a box at no more scale than is wanted.

Owns what is peculiar to JPEG. Everything is decoded by libjpeg-turbo with the accurate DCT and smooth chroma, so
pixels are those of OpenCV, PIL and MXNet; the fast variants save 7%. A stream that libjpeg could only guess at
(truncated, corrupt) is refused, never filled in.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Union

import numpy as np
import numpy.typing as npt
import simplejpeg

Payload = Union[bytes, memoryview]
Pixels = npt.NDArray[Any]  # uint8 (height, width, 3), RGB

START = b"\xff\xd8"
# A header of a few bytes can announce 65535 x 65535 pixels, 12 GB. Cameras stay below 2**28.
MAX_PIXELS = 1 << 28


class BadPicture(ValueError):
    """Why some bytes are no picture; whoever knows the record or file turns it into a DataError that names it."""


class Box(NamedTuple):
    """A part of a picture, in pixels."""

    top: int
    left: int
    height: int
    width: int


def is_jpeg(payload: Payload) -> bool:
    return bytes(payload[:2]) == START


def decode(payload: Payload) -> Pixels:
    """All pixels."""
    _, _, colorspace = _header(payload)
    return _pixels(payload, colorspace)


def decode_crop(payload: Payload, choose: Callable[[int, int], Box], target: int) -> Pixels:
    """The pixels of the box that `choose(height, width)` picks.

    A box of at least twice `target` a side comes scaled down, by 2 to 8, and is still at least `target`: libjpeg
    leaves out what would be averaged away. Scales between 1/2 and 1 are slower to decode than the whole.
    """
    height, width, colorspace = _header(payload)
    box = choose(height, width)
    if min(box.height, box.width) < 2 * target:
        return cut(_pixels(payload, colorspace), box)
    least_height, least_width = -(-height * target // box.height), -(-width * target // box.width)
    scaled = _pixels(payload, colorspace, least_height, least_width)
    top, bottom = _scaled(box.top, box.height, scaled.shape[0], height)
    left, right = _scaled(box.left, box.width, scaled.shape[1], width)
    return scaled[top:bottom, left:right]


def cut(image: Pixels, box: Box) -> Pixels:
    """The box as a view."""
    return image[box.top : box.top + box.height, box.left : box.left + box.width]


def _scaled(start: int, length: int, to: int, of: int) -> tuple[int, int]:
    """The pixels out of `to` that cover those from `start` on out of `of`."""
    return start * to // of, -(-(start + length) * to // of)


def _header(payload: Payload) -> tuple[int, int, str]:
    try:
        height, width, colorspace, _ = simplejpeg.decode_jpeg_header(payload)
    except ValueError as error:
        raise BadPicture(str(error)) from None
    if height * width > MAX_PIXELS:
        raise BadPicture(f"it announces {width} x {height} pixels, more than {MAX_PIXELS}")
    return height, width, colorspace


def _pixels(payload: Payload, colorspace: str, least_height: int = 0, least_width: int = 0) -> Pixels:
    # libjpeg turns YCCK into CMYK, but leaves CMYK to RGB to its callers.
    is_cmyk = colorspace in ("CMYK", "YCCK")
    wanted = "CMYK" if is_cmyk else "RGB"
    try:
        image: Pixels = simplejpeg.decode_jpeg(
            payload, wanted, min_height=least_height, min_width=least_width, min_factor=2
        )
    except ValueError as error:
        raise BadPicture(str(error)) from None
    return _cmyk_to_rgb(image) if is_cmyk else image


def _cmyk_to_rgb(image: npt.NDArray[Any]) -> Pixels:
    """As PIL and OpenCV do: JPEGs hold CMYK inverted (255 is no ink), and no colour profile is applied."""
    ink, black = image[:, :, :3].astype(np.uint16), image[:, :, 3:]
    colour: Pixels = (ink * black // 255).astype(np.uint8)
    return colour
