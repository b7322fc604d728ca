"""One image file to what is packed: as it is, or re-encoded where that is asked for or readers would disagree.

What a file says about itself is `looks.py`'s part, decoding is `mxtrain.data.images`'.
"""

from __future__ import annotations

from typing import NamedTuple

import cv2

from mxtrain.data import images
from mxtrain.data.jpeg import BadPicture, Box, Pixels
from tools.im2rec_wrapper import restart_intervals
from tools.im2rec_wrapper.looks import Look, look

DEFAULT_QUALITY = 95
PROGRESSIVE = "left progressive, which decode 3 times as slowly (--restart-intervals mends that)"


class Wanted(NamedTuple):
    """What becomes of images: only larger ones shrink; a quality re-encodes all."""

    short_side: int | None = None
    quality: int | None = None
    decodes_all: bool = True  # else JPEG and PNG that go in as they are only have their structure checked
    restart_intervals: bool = False  # in JPEGs that go in as they are; re-encoded ones have them anyway


class Packed(NamedTuple):
    payload: bytes
    notes: tuple[str, ...] = ()  # what was done to it


def prepare(data: bytes, wanted: Wanted) -> Packed:
    """What to pack for the file with these bytes; BadPicture if it is damaged, or refused by its kind."""
    seen = look(data)
    if not wanted.short_side and not wanted.quality and not seen.conversions:
        if wanted.decodes_all or not seen.is_checked:
            images.decode(data)
        return _as_it_is(data, seen, wanted)
    pixels, shrinks = _pixels(data, wanted.short_side)
    if not shrinks and not wanted.quality and not seen.conversions:
        return _as_it_is(data, seen, wanted)
    if shrinks or wanted.quality or seen.kind == "JPEG":
        return Packed(_as_jpeg(pixels, wanted.quality or DEFAULT_QUALITY), seen.conversions)
    return Packed(_encode(".png", pixels, []), seen.conversions)


def _as_it_is(data: bytes, seen: Look, wanted: Wanted) -> Packed:
    if seen.kind == "JPEG" and wanted.restart_intervals:
        return Packed(restart_intervals.insert(data, seen.num_unit_columns))
    return Packed(data, (PROGRESSIVE,) if seen.is_progressive else ())


def _pixels(data: bytes, short_side: int | None) -> tuple[Pixels, bool]:
    """The pixels at no more than the wanted size, and whether they were more."""
    if not short_side:
        return images.decode(data), False
    size = (0, 0)

    def whole(height: int, width: int) -> Box:
        nonlocal size
        size = height, width
        return Box(0, 0, height, width)

    # libjpeg's own averaging is coarse, so it brings huge images to no less than twice what is wanted.
    pixels = images.decode_crop(data, whole, 2 * short_side)
    factor = short_side / min(size)
    if factor >= 1:
        return pixels, False
    height, width = (max(round(side * factor), 1) for side in size)
    # As in the loader: linear skips pixels when it shrinks by more than 2; averaging costs five times as much.
    way = cv2.INTER_AREA if min(pixels.shape[:2]) >= 2 * min(height, width) else cv2.INTER_LINEAR
    return cv2.resize(pixels, (width, height), interpolation=way), True


def _as_jpeg(pixels: Pixels, quality: int) -> bytes:
    height, width = pixels.shape[:2]
    if max(height, width) > 65535:
        raise BadPicture(f"it has {width} x {height} pixels, and a JPEG takes 65535 a side")
    unit_columns = -(-width // 16)  # OpenCV halves the chroma both ways, so a unit is 16 x 16
    restart = restart_intervals.interval(unit_columns)
    return _encode(
        ".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_RST_INTERVAL, restart]
    )


def _encode(suffix: str, pixels: Pixels, parameters: list[int]) -> bytes:
    if max(pixels.shape[:2]) > 65535:
        raise BadPicture(
            f"it has {pixels.shape[1]} x {pixels.shape[0]} pixels, and a JPEG takes 65535 a side"
        )
    _, data = cv2.imencode(suffix, cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), parameters)
    return bytes(data)
