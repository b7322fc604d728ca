"""The preparation of one image file: packed as the same picture to the bit, which in a JPEG gets restart markers, or
re-encoded by request or where readers would disagree.

Does not own the inspection of a file (`image_info.py`), nor decoding (`mxtrain.data.decode.decoding`).
"""

from __future__ import annotations

from typing import NamedTuple

from mxtrain.core.opencv import cv2
from mxtrain.data.augment.mask_transforms import nearest
from mxtrain.data.decode import decoding, jpeg, pillow_decode
from mxtrain.data.decode.jpeg import BadPicture, Box, Pixels
from mxtrain.data.masks import mask_format
from mxtrain.data.packing.pictures import restart_intervals
from mxtrain.data.packing.pictures.image_info import ImageInfo, inspect
from mxtrain.data.packing.pictures.restart_intervals import NONE, NotInserted

DEFAULT_QUALITY = 95
PROGRESSIVE = "left progressive, which decode 3 times as slowly"
PLAIN = "left without restart intervals: "  # and why


class ImageOptions(NamedTuple):
    """The options of --resize, --quality, --verify and --restart-intervals."""

    short_side: int | None = None  # larger images shrink to it
    quality: int | None = None  # all are re-encoded as JPEG
    decodes_all: bool = True  # else of JPEG and PNG that go in as they are, only the structure is checked
    is_decoded_later: bool = False  # the payload is, to its end, by whoever asks for it
    restarts: str = NONE  # the way to put restart markers into JPEGs; re-encoded ones have them anyway


class PackedItem(NamedTuple):
    """The payload of a record."""

    payload: bytes
    notes: tuple[str, ...] = ()  # what was done to the item, for the summary


def prepare(data: bytes, options: ImageOptions) -> PackedItem:
    """Return the payload for a file with these bytes; BadPicture if it is damaged, or of a kind that is refused."""
    info = inspect(data)
    if not options.short_side and not options.quality and not info.conversions:
        must_decode = not options.is_decoded_later and (options.decodes_all or not info.is_checked)
        return _not_encoded(data, info, options, must_decode)
    pixels, shrinks = _pixels(data, options.short_side)
    if not shrinks and not options.quality and not info.conversions:
        return _not_encoded(data, info, options, must_decode=False)
    if shrinks or options.quality or info.format == "JPEG":
        return PackedItem(_as_jpeg(pixels, options.quality or DEFAULT_QUALITY), info.conversions)
    return PackedItem(_encode(".png", pixels, []), info.conversions)


def prepare_masked(data: bytes, options: ImageOptions) -> PackedItem:
    """Return the payload for a file with its mask behind it, which shrinks as the picture does."""
    picture, mask = mask_format.split(data)
    payload, notes = prepare(bytes(picture), options)
    if options.short_side:
        mask = nearest(mask, *decoding.decode(payload).shape[:2])
    return PackedItem(mask_format.join(payload, mask), notes)


def _not_encoded(data: bytes, info: ImageInfo, options: ImageOptions, must_decode: bool) -> PackedItem:
    """Return the same picture to the bit: with restart markers, or as it is."""
    notes = (PROGRESSIVE,) if info.is_progressive else ()
    if info.format == "JPEG" and options.restarts != NONE:
        try:
            payload = restart_intervals.insert(data, info.num_unit_columns, options.restarts)
        except NotInserted as reason:
            notes = (f"{PLAIN}{reason}", *notes)
        else:
            jpeg.check_header(payload)  # all else that decoding would find, inserting has found
            return PackedItem(payload)
    if must_decode:
        decoding.decode(data)
    return PackedItem(data, notes)


def _pixels(data: bytes, short_side: int | None) -> tuple[Pixels, bool]:
    """Return the pixels with at most this short side, and whether the picture was larger."""
    payload = pillow_decode.decode(data) if pillow_decode.is_one(data) else data
    if not short_side:
        return decoding.decode(payload), False
    size = (0, 0)

    def whole(height: int, width: int) -> Box:
        nonlocal size
        size = height, width
        return Box(0, 0, height, width)

    # libjpeg's own averaging is coarse, so it brings huge images to no less than twice the wanted size.
    pixels = decoding.decode_crop(payload, whole, 2 * short_side)
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
