"""Pictures with their labels as named arrays: `data`, planes of pixels, and `label`, a class or a row of labels.

Owns how a record, or a batch of a user's own DataLoader, becomes them. Decoding and what is done to pixels belong to
the transform (`data/augment/transforms.py`), the range of labels to `data/labels/label_checks.py`.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import os
from typing import TYPE_CHECKING, Any, Callable, Mapping

import numpy as np

from mxtrain.config import Data, Run
from mxtrain.config.components import augmentations
from mxtrain.config.values import sizes
from mxtrain.config.values.sizes import ImageSize
from mxtrain.core import regular_files
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays.array_fields import sidecar_path
from mxtrain.data.augment import normalization
from mxtrain.data.augment.transforms import eval_transform, train_transform
from mxtrain.data.decode import pillow_decode, tiff
from mxtrain.data.decode.jpeg import BadPicture
from mxtrain.data.fields import Array, Arrays, BadSample, Field
from mxtrain.data.interfaces import Dataset, Record, Records
from mxtrain.data.labels import label_checks
from mxtrain.data.loading.assembly import SampleAssembly
from mxtrain.data.records.recordio import Label
from mxtrain.data.user.user_samples import pair, to_numpy

if TYPE_CHECKING:
    from mxtrain.data.augment.crops import Transform

logger = logging.getLogger(__name__)

TransformPicture = Callable[[Any, np.random.Generator, Array], None]  # writes a payload's pixels into a row


def dtype_of(run: Run) -> str:
    """Return the type of pictures in a batch: a GPU normalises bytes itself, for a CPU the loader is 8 times faster."""
    chosen = run.data.normalize
    if chosen == "auto":
        chosen = "device" if run.layout.devices.startswith("gpu") else "host"
    return "uint8" if chosen == "device" else "float32"


def resize_of(data: Data) -> int:
    """Return the length of a picture's short side before the centre crop of evaluations."""
    return data.val_resize or round(min(sizes.height_and_width(data.image_size)) / 0.875)


def shape_of(data: Data) -> tuple[int, int, int]:
    """Return channels, height and width of the pictures that the net sees."""
    return (data.channels, *sizes.height_and_width(data.image_size))


def fields_of(run: Run, label: tuple[int, ...] = ()) -> tuple[Field, ...]:
    """Return the fields of a run's samples, with labels of the shape `label`."""
    return fields(run.data.image_size, dtype_of(run), label, run.data.channels)


def fields(
    image_size: ImageSize, dtype: str = "float32", label: tuple[int, ...] = (), channels: int = 3
) -> tuple[Field, ...]:
    """Return the fields, with labels of the shape `label`; planes of uint8 are still to be normalised."""
    return Field("data", (channels, *sizes.height_and_width(image_size)), dtype), Field("label", label)


def refuse_arrays(dataset: Dataset) -> None:
    """Refuse .rec files of other samples than pictures, with a DataError."""
    for path in dataset.files:
        if sidecar_path(path).exists():
            raise DataError(f"{path}: holds arrays, not pictures; give --task arrays")


def transform_of(run: Run, description: Mapping[str, Any], is_training: bool) -> Transform:
    """Return what is done to the pictures of a run; those of --overfit are judged as they are learnt.

    Of --augment auto, where no training set has been looked at, it is ImageNet's.
    """
    data, normalisation = run.data, normalization.of_description(run.data, description)
    if is_training and not run.optim.overfit:
        is_open = data.augment == augmentations.AUTO
        augment = augmentations.IMAGENET if is_open else data.augment
        return train_transform(augment, data.image_size, *normalisation)
    return eval_transform(data.image_size, resize_of(data), *normalisation)


@dataclasses.dataclass(frozen=True)
class PictureReader:
    """The function from a record to a sample. A picklable value if the transform is one."""

    transform: TransformPicture
    num_classes: int = (
        0  # of labels that nobody has checked before, as those of a stream; 0: they are checked
    )

    def __call__(self, record: Record, rng: np.random.Generator, row: Arrays) -> Arrays:
        label = row["label"]
        label[...] = _labels(record.label, label.shape)
        if self.num_classes and not label.ndim:
            label_checks.check_sample(record.label, self.num_classes)
        if self.num_classes and label.ndim and not np.isin(label, (-1, 0, 1)).all():
            raise BadSample("its labels are not all 1 (yes), 0 (no) or -1 (unknown)")
        if not np.isfinite(label).all():
            raise BadSample("what is to be predicted is not finite")
        try:
            self.transform(record.payload, rng, row["data"])
        except BadPicture as bad:
            raise BadSample(f"{bad}; pack the file again without it") from None
        return row


def picture_assembly(
    records: Records,
    transform: TransformPicture,
    image_size: ImageSize,
    seed: int,
    skip_bad: int = 0,
    dtype: str = "float32",
) -> SampleAssembly:
    """Return the assembly of pictures that this transform makes."""
    return SampleAssembly(records, PictureReader(transform), fields(image_size, dtype), seed, skip_bad)


def _labels(label: Label, shape: tuple[int, ...]) -> Any:
    """Return the labels of a sample in this shape; other tools also write arrays of one where there is one."""
    wanted = math.prod(shape)
    if np.size(label) != wanted:
        raise BadSample(f"it has {np.size(label)} labels; pack it with {'one' if wanted == 1 else wanted}")
    return np.reshape(label, shape)


def of_batch(
    batch: Any,
    user: str,
    batch_size: int,
    image_size: ImageSize,
    num_classes: int,
    label_shape: tuple[int, ...] = (),
    channels: int = 3,
) -> Arrays:
    """Return the arrays of a user's batch; `user`, the flag and its value, begins the message where they do not fit.

    `label_shape` is the shape of a sample's labels: () for a class, or a 0, 1 or -1 for each class.
    """
    try:
        # Copies: --mixup and --cutmix work in place, and these may be the user's own arrays.
        data, label = (np.array(to_numpy(part), np.float32, order="C") for part in batch)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{user}: gave something else than two arrays ({error}); give (pictures, labels)"
        ) from None
    if label.shape != (batch_size, *label_shape):
        row = f" rows of {label_shape[0]}" if label_shape else ""
        raise UsageError(
            f"{user}: gave labels of shape {label.shape}, but a batch is a step: give as many{row} as "
            f"--batch-size {batch_size}, with last_batch='discard'"
        )
    shape = (batch_size, channels, *sizes.height_and_width(image_size))
    if data.shape != shape:
        raise UsageError(
            f"{user}: gave pictures of shape {data.shape}; give {shape}, as --batch-size and --image-size say"
        )
    if label_shape and not np.isin(label, (-1, 0, 1)).all():
        raise DataError(f"{user}: gives labels that are not 1 (yes), 0 (no) or -1 (unknown)")
    if not label_shape and not ((label >= 0) & (label < num_classes) & (label % 1 == 0)).all():
        raise DataError(
            f"{user}: gives labels from {label.min():g} to {label.max():g}; there are {num_classes} classes, whole "
            "numbers from 0"
        )
    return {"data": data, "label": label}


def restored(data: Array, normalisation: normalization.Normalisation) -> Array:
    """Return the pictures of a batch as uint8 (pictures, height, width, channels), not normalised any more."""
    if data.dtype == np.uint8:
        return np.ascontiguousarray(data.transpose(0, 2, 3, 1))
    mean, deviation = (np.reshape(each, (-1, 1, 1)).astype(np.float32) * 255 for each in normalisation)
    found = np.empty((len(data), *data.shape[2:], data.shape[1]), np.uint8)
    for planes, picture in zip(data, found):  # one at a time, so that it stays in the CPU's cache
        pixels = planes * deviation
        pixels += mean + 0.5
        picture[:] = np.clip(pixels, 0, 255, out=pixels).transpose(1, 2, 0)
    return found


def input_of(source: object, run: Run, description: Mapping[str, Any]) -> Array:
    """Return a picture as a net of `run` takes it; DataError if it is none.

    It is a file's path, what such a file holds, or uint8 (height, width, 3).
    """
    return input_by(transform_of(run, description, is_training=False), source, run)


def input_by(transform: Callable[[Any, Any, Array], None], source: object, run: Run) -> Array:
    """Return a picture as a transform makes it for a net of `run`; DataError if it is none."""
    name = str(source) if isinstance(source, (str, os.PathLike)) else "this picture"
    payload: Any
    if isinstance(source, (str, os.PathLike, bytes)):
        payload = source if isinstance(source, bytes) else _content(source)
        if tiff.num_pages(payload) > 1:
            logger.warning("%s: has %d pages; page 1 is taken", name, tiff.num_pages(payload))
    else:
        payload = record_of(0, (source, 0.0), "predict").payload
    picture = np.empty(shape_of(run.data), np.float32)
    try:
        if pillow_decode.is_one(payload):
            payload = pillow_decode.decode(payload)
        transform(payload, None, picture)
    except ValueError as error:
        raise DataError(f"{name}: {error}") from None
    except MemoryError:
        raise DataError(f"{name}: is too large for this machine's memory; make it smaller") from None
    return picture


def _content(path: str | os.PathLike[str]) -> bytes:
    try:
        return regular_files.read(os.fspath(path))
    except OSError as error:
        raise DataError(f"{path}: {regular_files.problem(os.fspath(path)) or error.strerror}") from None


def record_of(key: int, item: object, user: str) -> Record:
    """Return the record of an item (picture, label) of a user's Dataset; `user` begins the message of a refusal."""
    picture, label = pair(key, item, user)
    pixels, label = to_numpy(picture), np.asarray(to_numpy(label), np.float64)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3):
        raise UsageError(
            f"{user}: gives {pixels.dtype} {pixels.shape} for a picture; give uint8 (height, width, 3), "
            "before any transform, or a DataLoader of finished batches"
        )
    colour = np.ascontiguousarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))
    return Record(key, label if label.ndim else float(label), colour)
