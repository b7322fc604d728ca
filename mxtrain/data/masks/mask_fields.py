"""Pictures with masks as named arrays: `data`, planes of pixels, `mask`, the class of each, and the original's `size`.

Where masks are judged in the originals' sizes, `original` is the mask as it came, a PNG.

Owns how a record becomes them. What a payload is belongs to `mask_format.py`, what moves both to
`data/augment/mask_transforms.py`. Of a user's Dataset the label is the mask and the payload the pixels.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping

import numpy as np

from mxtrain.config import Run
from mxtrain.config.values import sizes
from mxtrain.core.errors import UsageError
from mxtrain.data import image_fields
from mxtrain.data.augment import crops, mask_transforms, normalization
from mxtrain.data.augment.crops import Transform
from mxtrain.data.augment.mask_transforms import Masked, MaskTransform
from mxtrain.data.decode import decoding
from mxtrain.data.decode.whole_pictures import decoded, whole
from mxtrain.data.fields import Array, Arrays, BadSample, Field
from mxtrain.data.interfaces import Record
from mxtrain.data.masks import mask_format
from mxtrain.data.masks.mask_format import IGNORED
from mxtrain.data.user.user_samples import pair, to_numpy

NO_MASK: Array = np.full((1, 1), IGNORED, np.uint8)
MOST_BYTES = 1 << 20  # of a mask as it came
ORIGINAL = Field("original", (MOST_BYTES,), "uint8", multiple=4096)


def fields_of(run: Run) -> tuple[Field, ...]:
    """Return the fields of a run's samples, but for the ORIGINAL."""
    picture = Field("data", image_fields.shape_of(run.data), image_fields.dtype_of(run))
    mask = Field("mask", tuple(sizes.height_and_width(run.data.image_size)), "uint8")
    return picture, mask, Field("size", (2,))


@dataclasses.dataclass(frozen=True)
class MaskReader:
    """The function from a record to a sample: the picture, augmented or only scaled, and its mask with it."""

    write: Transform  # pixels to planes
    num_classes: int
    change: MaskTransform
    keeps_original: bool = False

    def __call__(self, record: Record, rng: np.random.Generator, row: Arrays) -> Mapping[str, Any]:
        payload, mask = picture_and_mask(record)
        check_classes(mask, self.num_classes)
        changed, own = self.changed(payload, mask, rng)
        self.write(changed.pixels, rng, row["data"])
        original = {"original": _png_of(mask)} if self.keeps_original else {}
        return {"data": row["data"], "mask": changed.mask, "size": own, **original}

    def changed(self, payload: Any, mask: Array | None, rng: crops.Rng) -> tuple[Masked, Array]:
        """Return a picture, with its mask if it has one, as the net sees them, and its own height and width."""
        target = round(max(self.change.size) * self.change.largest)
        pixels, own = decoded(payload, lambda each: whole(each, target))
        if mask is not None and mask.shape != tuple(own):
            high, wide = map(int, own)
            raise BadSample(
                f"its mask is {mask.shape[1]} x {mask.shape[0]} pixels, and the picture {wide} x {high}; pack it again"
            )
        size = sizes.Size(*map(int, own))
        return self.change(Masked(pixels, NO_MASK if mask is None else mask), size, rng), own


def reader_of(
    run: Run, description: Mapping[str, Any], num_classes: int, is_training: bool = False
) -> MaskReader:
    """Return the reader of a run's samples; those of --overfit are judged as they are learnt."""
    normalisation = normalization.of_description(run.data, description)
    size = sizes.height_and_width(run.data.image_size)
    change = mask_transforms.build(run.data.augment, size, is_training and not run.optim.overfit)
    return MaskReader(Transform(crops.no_crop, (), size, *normalisation), num_classes, change)


def _png_of(mask: Array) -> Array:
    png = np.frombuffer(mask_format.encoded(mask), np.uint8)
    if len(png) > MOST_BYTES:
        raise BadSample(
            f"its mask takes {len(png)} bytes, and in its own size one of {MOST_BYTES} can be judged; leave out "
            "--masks-at original"
        )
    return png


def picture_and_mask(record: Record) -> tuple[Any, Array]:
    """Return the picture of a record, encoded or as pixels, and its mask; BadSample in words where it has none."""
    if isinstance(record.payload, np.ndarray):
        return record.payload, np.asarray(record.label, np.uint8)
    try:
        return mask_format.split(record.payload)
    except ValueError as bad:
        raise BadSample(str(bad)) from None


def check_classes(mask: Array, num_classes: int) -> None:
    """Raise BadSample for a mask with a class that there is not."""
    wrong = mask_format.wrong_class(mask, num_classes)
    if wrong is not None:
        raise BadSample(
            f"a pixel of its mask has class {wrong}, but there are {num_classes} classes, numbered from 0, and "
            f"{IGNORED} for pixels that do not count"
        )


def input_of(source: object, run: Run, description: Mapping[str, Any]) -> dict[str, Any]:
    """Return a picture as a net of `run` takes it, and its own size; DataError if it is none.

    It is a file's path, what such a file holds, or uint8 (height, width, 3).
    """
    reader = reader_of(run, description, 1)
    size = np.zeros(2, np.float32)

    def transform(payload: decoding.Payload, rng: crops.Rng, out: Array) -> None:
        changed, size[:] = reader.changed(payload, None, rng)
        reader.write(changed.pixels, rng, out)

    return {"data": image_fields.input_by(transform, source, run), "size": size}


def record_of(key: int, item: object, user: str) -> Record:
    """Return the record of an item (picture, mask) of a user's Dataset; `user` begins the message of a refusal."""
    picture, mask = pair(key, item, user)
    pixels = image_fields.record_of(key, (picture, 0.0), user).payload
    classes = np.asarray(to_numpy(mask))
    fits = classes.ndim == 2 and np.issubdtype(classes.dtype, np.integer)
    if not fits or (classes.size and not (classes.min() >= 0 and classes.max() <= IGNORED)):
        raise UsageError(
            f"{user}: gives a mask of {classes.dtype} {classes.shape}; give whole numbers from 0 to {IGNORED}, "
            "(height, width)"
        )
    return Record(key, classes.astype(np.uint8), pixels)
