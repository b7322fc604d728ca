"""Pictures with boxes as named arrays: `data`, planes of pixels, `boxes` in their pixels, and `size`, of the original.

Owns how a record becomes them. Labels are `box_labels.py`'s, decoding and normalisation those of all pictures.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping

import numpy as np

from mxtrain.config import Run
from mxtrain.config.values import sizes
from mxtrain.core.errors import UsageError
from mxtrain.data import image_fields
from mxtrain.data.augment import crops, normalization
from mxtrain.data.augment.crops import Transform
from mxtrain.data.boxes import box_labels
from mxtrain.data.decode import decoding
from mxtrain.data.decode.jpeg import BadPicture, Box, Pixels
from mxtrain.data.fields import Array, Arrays, BadSample, Field
from mxtrain.data.interfaces import Record
from mxtrain.data.user.user_samples import pair, to_numpy

MOST_BOXES = 1024  # of a picture


def fields_of(run: Run) -> tuple[Field, ...]:
    """Return the fields of a run's samples."""
    picture = Field("data", image_fields.shape_of(run.data), image_fields.dtype_of(run))
    return picture, Field("boxes", (MOST_BOXES, 6), "float32", multiple=8, fill=-1), Field("size", (2,))


@dataclasses.dataclass(frozen=True)
class BoxReader:
    """The function from a record to a sample: the picture stretched to the net's size, and its boxes with it."""

    write: Transform  # pixels to planes
    num_classes: int

    def __call__(self, record: Record, rng: np.random.Generator, row: Arrays) -> Mapping[str, Any]:
        try:
            pixels, size = stretched(record.payload, self.write.size)
            boxes = box_labels.boxes_of(record.label, self.write.size.width, self.write.size.height)
            self.write(pixels, rng, row["data"])
        except BadPicture as bad:
            raise BadSample(f"{bad}; pack the file again without it") from None
        except ValueError as bad:
            raise BadSample(str(bad)) from None
        if len(boxes) > MOST_BOXES:
            raise BadSample(f"it has {len(boxes)} boxes; a picture may have {MOST_BOXES}")
        check_classes(boxes[:, 4], self.num_classes)
        return {"data": row["data"], "boxes": boxes, "size": size}


def reader_of(run: Run, description: Mapping[str, Any], num_classes: int) -> BoxReader:
    """Return the reader of a run's samples."""
    normalisation = normalization.of_description(run.data, description)
    size = sizes.height_and_width(run.data.image_size)
    return BoxReader(Transform(_as_it_is, (), size, *normalisation), num_classes)


def check_classes(classes: Array, num_classes: int) -> None:
    """Raise BadSample for a box of a class that there is not."""
    wrong = classes[(classes < 0) | (classes >= num_classes) | (classes % 1 != 0)]
    if len(wrong):
        raise BadSample(f"a box has class {wrong[0]:g}, but there are {num_classes} classes, numbered from 0")


def stretched(payload: decoding.Payload, size: sizes.Size) -> tuple[Pixels, Array]:
    """Return the whole picture in this size, and its own height and width."""
    own = np.zeros(2, np.float32)

    def whole(height: int, width: int) -> Box:
        own[:] = height, width
        return Box(0, 0, height, width)

    return decoding.decode_resized(payload, whole, size), own


def _as_it_is(pixels: Pixels, rng: crops.Rng, size: sizes.Size) -> Pixels:
    return pixels


def input_of(source: object, run: Run, description: Mapping[str, Any]) -> dict[str, Any]:
    """Return a picture as a detector of `run` takes it, and its own size; DataError if it is none.

    It is a file's path, what such a file holds, or uint8 (height, width, 3).
    """
    write = reader_of(run, description, 1).write
    size = np.zeros(2, np.float32)

    def transform(payload: decoding.Payload, rng: crops.Rng, out: Array) -> None:
        pixels, size[:] = stretched(payload, write.size)
        write(pixels, rng, out)

    return {"data": image_fields.input_by(transform, source, run), "size": size}


def record_of(key: int, item: object, user: str) -> Record:
    """Return the record of an item (picture, boxes) of a user's Dataset; `user` begins the message of a refusal.

    Boxes are (n, 5) or (n, 6), x1, y1, x2, y2, class and a flag if there are any, in pixels of the picture.
    """
    picture, boxes = pair(key, item, user)
    pixels = image_fields.record_of(key, (picture, 0.0), user).payload
    rows = np.asarray(to_numpy(boxes), np.float32)
    rows = rows.reshape(0, 5) if not rows.size else rows
    if rows.ndim != 2 or rows.shape[1] not in (5, 6):
        raise UsageError(
            f"{user}: gives boxes of shape {rows.shape}; give (n, 5), or (n, 6) with flags: x1, y1, x2, y2, class"
        )
    flags = np.zeros((len(rows), 6 - rows.shape[1]), np.float32)
    label = box_labels.label_of(np.hstack([rows, flags]), pixels.shape[1], pixels.shape[0])
    return Record(key, label, pixels)
