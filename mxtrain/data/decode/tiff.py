"""The directories of a TIFF, which an EXIF block is too: orientation, number of pages, kind of alpha.

OpenCV decodes TIFF and turns it upright; the one thing decoded here is gray with alpha, where OpenCV drops the alpha.
"""

from __future__ import annotations

import contextlib
import struct
from typing import Dict, Iterator, NamedTuple

import numpy as np
import numpy.typing as npt

from mxtrain.core.opencv import cv2
from mxtrain.data.decode.jpeg import BadPicture, Payload
from mxtrain.data.fields import Array

_SUBFILE, _BITS, _PHOTOMETRIC, _ORIENTATION = 254, 258, 262, 274
_SAMPLES, _PLANES, _PREDICTOR, _TILE, _EXTRA = 277, 284, 317, 322, 338
_READ = {_SUBFILE, _BITS, _PHOTOMETRIC, _ORIENTATION, _SAMPLES, _PLANES, _PREDICTOR, _TILE, _EXTRA}
_FIELD_TYPES = {3: "H", 4: "I"}  # SHORT and LONG, the types of all these tags
_WHITE_IS_ZERO, _REDUCED, _DIFFERENCES, _SEPARATE = 0, 1, 2, 2

# Kinds of the extra sample: no alpha; alpha with colours already multiplied by it; alpha with plain colours.
OTHER, PREMULTIPLIED, PLAIN = 0, 1, 2


class Tag(NamedTuple):
    at: int  # the offset of its entry
    values: tuple[int, ...]


Tags = Dict[int, Tag]


def is_tiff(payload: Payload) -> bool:
    """Return whether bytes begin as a TIFF."""
    return _byte_order(payload) != ""


def orientation(block: Payload) -> int:
    """Return the orientation in a TIFF or an EXIF block, 1 (upright) to 8; 1 where it has none that makes sense."""
    found = _value(_first(block), _ORIENTATION, 1)
    return found if 1 <= found <= 8 else 1


def num_pages(payload: Payload) -> int:
    """Return the number of pictures in a TIFF, not counting reduced copies of others."""
    return sum(not _value(tags, _SUBFILE, 0) & _REDUCED for tags in _directories(payload))


def alpha(payload: Payload) -> int:
    """Return the kind of alpha in the file: OTHER, PREMULTIPLIED or PLAIN."""
    return _alpha(_first(payload))


def decoded_alpha(payload: Payload, dtype: npt.DTypeLike) -> int:
    """Return the kind of alpha once OpenCV has decoded it: libtiff multiplies 8-bit colours by plain alpha."""
    tags = _first(payload)
    is_multiplied = dtype == np.uint8 and _value(tags, _EXTRA, OTHER) == PLAIN
    return PREMULTIPLIED if is_multiplied else _alpha(tags)


def gray_with_alpha(payload: Payload) -> Array | None:
    """Return gray and alpha, (height, width, 2), not turned upright; None for any other picture.

    OpenCV would drop the alpha, but reads 16-bit gray unchanged: its tags are rewritten to say that the two 8-bit
    samples are one of 16 bits.
    """
    tags = _first(payload)
    if _value(tags, _SAMPLES, 1) != 2 or _alpha(tags) == OTHER:
        return None
    has_differences = _value(tags, _PREDICTOR, 1) == _DIFFERENCES
    are_apart = _value(tags, _PLANES, 1) == _SEPARATE or (has_differences and _TILE in tags)
    if tags.get(_BITS, Tag(0, ())).values != (8, 8) or are_apart:
        raise BadPicture("it is TIFF of gray with alpha, but not of 8 bits and in rows; convert it to PNG")
    order = _byte_order(payload)
    rewritten = bytearray(payload)
    for number, value in ((_BITS, 16), (_ORIENTATION, 1), (_SAMPLES, 1), (_PREDICTOR, 1), (_EXTRA, OTHER)):
        if number in tags:
            struct.pack_into(order + "HIHH", rewritten, tags[number].at + 2, 3, 1, value, 0)
    pairs = cv2.imdecode(np.frombuffer(rewritten, np.uint8), cv2.IMREAD_UNCHANGED)
    if pairs is None or pairs.dtype != np.uint16 or pairs.ndim != 2:
        raise BadPicture(
            "it is damaged, or TIFF of gray with alpha that OpenCV does not read; convert it to PNG"
        )
    both: Array = pairs.astype(order + "u2").view(np.uint8).reshape(*pairs.shape, 2)
    if has_differences:
        both = np.cumsum(both, axis=1, dtype=np.uint8)
    if _value(tags, _PHOTOMETRIC, 1) == _WHITE_IS_ZERO:
        both[:, :, 0] = 255 - both[:, :, 0]
    return both


def _directories(block: Payload) -> Iterator[Tags]:
    """Yield the tags of each page, as far as they can be read."""
    order, seen = _byte_order(block), set()
    with contextlib.suppress(struct.error):
        (at,) = struct.unpack_from(order + "I", block, 4) if order else (0,)
        while at and at not in seen:
            seen.add(at)
            (num_entries,) = struct.unpack_from(order + "H", block, at)
            end = at + 2 + 12 * num_entries
            yield _tags(block, order, range(at + 2, end, 12))
            (at,) = struct.unpack_from(order + "I", block, end)


def _first(block: Payload) -> Tags:
    return next(_directories(block), {})


def _tags(block: Payload, order: str, offsets: range) -> Tags:
    found: Tags = {}
    entry = struct.Struct(order + "HHI")
    with contextlib.suppress(struct.error):  # cut off: what came before is good
        for at in offsets:
            number, field_type, count = entry.unpack_from(block, at)
            if number not in _READ or field_type not in _FIELD_TYPES or count > 4:
                continue
            values = struct.Struct(f"{order}{count}{_FIELD_TYPES[field_type]}")
            (values_at,) = (at + 8,) if values.size <= 4 else struct.unpack_from(order + "I", block, at + 8)
            found[number] = Tag(at, values.unpack_from(block, values_at))
    return found


def _value(tags: Tags, number: int, default: int) -> int:
    """Return the first value of a tag."""
    return next(iter(tags[number].values), default) if number in tags else default


def _alpha(tags: Tags) -> int:
    """Return the kind of alpha. A fourth sample without a declared kind counts as alpha, as in Pillow."""
    num_samples = _value(tags, _SAMPLES, 1)
    if num_samples not in (2, 4):
        return OTHER
    return _value(tags, _EXTRA, PLAIN if num_samples == 4 else OTHER)


def _byte_order(block: Payload) -> str:
    return {b"II*\0": "<", b"MM\0*": ">"}.get(bytes(block[:4]), "")
