"""Pictures with boxes as named arrays: `data`, planes of pixels, `boxes` in their pixels, and `size`, of the original.

Owns how a record becomes them. Labels are `box_labels.py`'s, decoding and normalisation those of all pictures.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Mapping

import numpy as np

from mxtrain.config import Run
from mxtrain.config.values import sizes
from mxtrain.core.errors import UsageError
from mxtrain.data import image_fields
from mxtrain.data.augment import box_geometry, box_transforms, crops, normalization
from mxtrain.data.augment.box_geometry import Boxed
from mxtrain.data.augment.box_transforms import BoxTransform
from mxtrain.data.augment.crops import Transform
from mxtrain.data.boxes import box_labels
from mxtrain.data.decode import decoding
from mxtrain.data.decode.jpeg import Box, Pixels
from mxtrain.data.decode.resizing import resize
from mxtrain.data.decode.whole_pictures import all_of, decoded, whole
from mxtrain.data.fields import Array, Arrays, BadSample, Field
from mxtrain.data.interfaces import Record
from mxtrain.data.user.user_samples import pair, to_numpy

if TYPE_CHECKING:
    from mxtrain.data.loading.assembly import Draw

MOST_BOXES = 1024  # of a picture
DETAIL = 2  # times the net's size: as large as a picture is at most before it is augmented


def fields_of(run: Run) -> tuple[Field, ...]:
    """Return the fields of a run's samples."""
    picture = Field("data", image_fields.shape_of(run.data), image_fields.dtype_of(run))
    return picture, Field("boxes", (MOST_BOXES, 6), "float32", multiple=8, fill=-1), Field("size", (2,))


@dataclasses.dataclass(frozen=True)
class BoxReader:
    """The function from a record to a sample: the picture, augmented or only scaled, and its boxes with it.

    It is a `MixingReader`: --augment mosaic and mixup put parts of other pictures into one.
    """

    write: Transform  # pixels to planes
    num_classes: int
    change: BoxTransform
    is_training: bool = False  # boxes end at the picture's border, and those beyond it are left out

    def __call__(self, record: Record, rng: np.random.Generator, row: Arrays) -> Mapping[str, Any]:
        return self.mixed(record, rng, row, lambda make: make(record))

    def mixed(self, record: Record, rng: np.random.Generator, row: Arrays, draw: Draw) -> Mapping[str, Any]:
        """Return the values of all fields; `draw` makes pictures of other records, for what mixes several."""
        if self.change.is_plain:
            boxed, size = self._scaled(record)
        else:
            boxed, size = self._whole(record)
            boxed = self.change(boxed, rng, lambda: draw(self._other))
        if len(boxed.boxes) > MOST_BOXES:
            raise BadSample(f"it has {len(boxed.boxes)} boxes; a picture may have {MOST_BOXES}")
        self.write(boxed.pixels, rng, row["data"])
        return {"data": row["data"], "boxes": boxed.boxes, "size": size}

    def _scaled(self, record: Record) -> tuple[Boxed, Array]:
        """Return a picture with its boxes in the net's size, and its own height and width."""
        pixels, own = decoded(record.payload, lambda payload: scaled(payload, self.change))
        inside = inside_of(own, self.change)
        boxes = self._boxes(record, inside.width, inside.height)
        if self.is_training:
            boxes = box_geometry.visible(boxes, Box(0, 0, inside.height, inside.width))
        boxes[:, :4] += np.array([inside.left, inside.top] * 2, np.float32)
        return Boxed(pixels, boxes), own

    def _whole(self, record: Record) -> tuple[Boxed, Array]:
        """Return a picture with its boxes, made smaller where it has much more detail than the net's size."""
        most = DETAIL * max(self.change.size)
        pixels, own = decoded(record.payload, lambda payload: whole(payload, most))
        height, width = pixels.shape[:2]
        boxes = self._boxes(record, width, height)
        boxed = Boxed(pixels, box_geometry.visible(boxes, Box(0, 0, height, width)))
        if max(height, width) <= most:
            return boxed, own
        inside = box_geometry.letterbox_of(boxed.size, sizes.Size(most, most))
        return box_geometry.resized(boxed, sizes.Size(inside.height, inside.width)), own

    def _other(self, record: Record) -> Boxed:
        try:
            return self._whole(record)[0]
        except BadSample as bad:
            raise BadSample(f"of the record of key {record.key}, which is mixed into it: {bad}") from None

    def _boxes(self, record: Record, width: int, height: int) -> Array:
        try:
            boxes = box_labels.boxes_of(record.label, width, height)
        except ValueError as bad:
            raise BadSample(str(bad)) from None
        check_classes(boxes[:, 4], self.num_classes)
        return boxes


def reader_of(
    run: Run, description: Mapping[str, Any], num_classes: int, is_training: bool = False
) -> BoxReader:
    """Return the reader of a run's samples; those of --overfit are judged as they are learnt."""
    normalisation = normalization.of_description(run.data, description)
    change = transform_of(run, is_training and not run.optim.overfit)
    return BoxReader(
        Transform(crops.no_crop, (), change.size, *normalisation), num_classes, change, is_training
    )


def transform_of(run: Run, is_training: bool = False) -> BoxTransform:
    """Return what --augment of a run does to pictures with boxes; in evaluations only how they get the net's size."""
    return box_transforms.build(run.data.augment, sizes.height_and_width(run.data.image_size), is_training)


def inside_of(own: Array, change: BoxTransform) -> Box:
    """Return where a picture of this height and width lies in what the net sees."""
    if change.is_letterboxed:
        return box_geometry.letterbox_of(sizes.Size(*map(int, own)), change.size)
    return Box(0, 0, *change.size)


def check_classes(classes: Array, num_classes: int) -> None:
    """Raise BadSample for a box of a class that there is not."""
    wrong = classes[(classes < 0) | (classes >= num_classes) | (classes % 1 != 0)]
    if len(wrong):
        raise BadSample(f"a box has class {wrong[0]:g}, but there are {num_classes} classes, numbered from 0")


def in_originals(own: Array, change: BoxTransform) -> tuple[Array, Array]:
    """Return by what boxes in the net's pixels become those of the originals: offsets, to be taken off, and factors.

    `own` has the height and width of each original (pictures, 2); both are (pictures, 4).
    """
    inside = np.array([inside_of(each, change) for each in own], np.float64).reshape(-1, 4)
    factors = own / inside[:, 2:]
    return np.tile(inside[:, 1::-1], 2), np.tile(factors[:, ::-1], 2)


def scaled(payload: decoding.Payload, change: BoxTransform) -> tuple[Pixels, Array]:
    """Return the whole picture in the net's size, and its own height and width."""
    if not change.is_letterboxed:
        own = np.zeros(2, np.float32)
        return decoding.decode_resized(payload, all_of(own), change.size), own
    pixels, own = whole(payload, max(change.size))
    inside = inside_of(own, change)
    small = resize(pixels, inside.height, inside.width)
    canvas = box_geometry.blank(change.size)
    canvas[inside.top : inside.top + inside.height, inside.left : inside.left + inside.width] = small
    return canvas, own


def input_of(source: object, run: Run, description: Mapping[str, Any]) -> dict[str, Any]:
    """Return a picture as a detector of `run` takes it, and its own size; DataError if it is none.

    It is a file's path, what such a file holds, or uint8 (height, width, 3).
    """
    reader = reader_of(run, description, 1)
    size = np.zeros(2, np.float32)

    def transform(payload: decoding.Payload, rng: crops.Rng, out: Array) -> None:
        pixels, size[:] = scaled(payload, reader.change)
        reader.write(pixels, rng, out)

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
