"""The payload of a record of a picture with its mask: the encoded picture, the mask as PNG, and a footer.

The footer is the PNG's length, uint32 little-endian, and MAGIC. So whatever decodes the payload as a picture sees the
picture. A mask is uint8 (height, width): the class of each pixel of the picture as it is shown, upright, and IGNORED
where nothing is said of it. It says nothing of names; these are the .rec's.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from mxtrain.core.opencv import cv2
from mxtrain.data.fields import Array

IGNORED = 255
MOST_CLASSES = 255  # numbered from 0
MAGIC = b"mxtmask1"
_FOOTER = struct.Struct("<I8s")


def join(picture: bytes, mask: Array) -> bytes:
    """Return the payload of an encoded picture and its mask."""
    png = encoded(mask)
    return b"".join([picture, png, _FOOTER.pack(len(png), MAGIC)])


def encoded(mask: Array) -> bytes:
    """Return a mask as a PNG of grey pixels."""
    return cv2.imencode(".png", mask)[1].tobytes()


def has_mask(payload: Any) -> bool:
    """Return whether a payload ends with a footer."""
    return len(payload) > _FOOTER.size and bytes(payload[-len(MAGIC) :]) == MAGIC


def picture_of(payload: Any) -> Any:
    """Return the encoded picture of a payload, which may have a mask behind it or none."""
    if not isinstance(payload, np.ndarray) and has_mask(payload):
        length, _ = _FOOTER.unpack(payload[-_FOOTER.size :])
        return payload[: max(0, len(payload) - _FOOTER.size - length)]
    return payload


def split(payload: Any) -> tuple[Any, Array]:
    """Return the encoded picture and the mask of a payload; ValueError, in words, for one without a mask."""
    if not has_mask(payload):
        raise ValueError("it has no mask; pack pictures with masks (pack --from masks)")
    length, _ = _FOOTER.unpack(payload[-_FOOTER.size :])
    end = len(payload) - _FOOTER.size
    if not 0 < length < end:
        raise ValueError(f"its mask of {length} bytes is longer than the record; pack it again")
    return payload[: end - length], decoded(payload[end - length : end])


def wrong_class(mask: Array, num_classes: int) -> int | None:
    """Return the class of a pixel that is none of so many, nor IGNORED; None where all are."""
    wrong = mask[(mask >= num_classes) & (mask != IGNORED)]
    return int(wrong[0]) if len(wrong) else None


def without_border(mask: Array) -> Array:
    """Return the part of a mask that is not IGNORED on all of a side, as that beside a letterboxed picture is."""
    rows, columns = ((mask != IGNORED).any(axis=axis) for axis in (1, 0))
    inside: Array = mask[np.ix_(rows, columns)]
    return inside


def decoded(png: Any) -> Array:
    """Return the mask that a PNG of grey pixels holds; ValueError, in words, for anything else."""
    mask = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_UNCHANGED)
    if mask is None:
        raise ValueError("its mask is no PNG that can be decoded; pack it again")
    if mask.ndim != 2 or mask.dtype != np.uint8:
        raise ValueError("its mask is no picture of 8 bits of grey; pack it again")
    return mask
