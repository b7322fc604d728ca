"""The checks of masks before training: which classes there are, and how many pixels of each.

Owns the names of classes and the counts of pixels. To read all masks would take minutes, so counts are of records at
even distances; what is wrong with another one is found when it is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.fields import Array, BadSample
from mxtrain.data.interfaces import Dataset
from mxtrain.data.labels import class_weights, label_checks
from mxtrain.data.masks import mask_fields
from mxtrain.data.masks.mask_format import IGNORED, MOST_CLASSES

MOST_READ = 256  # masks


def class_names(train: Dataset, val: Dataset | None, num_classes: int) -> list[str]:
    """Check the masks of both data sets, and return a name for each class; one without a name has its number.

    `num_classes` is --num-classes; 0 takes as many as the training set names. DataError names the first record, or
    file, that does not fit.
    """
    count = label_checks.num_listed(train, num_classes)
    if not count:
        raise UsageError(f"{train.path}: names no classes; give --num-classes")
    if not 2 <= count <= MOST_CLASSES:
        raise UsageError(f"{train.path}: has {count} classes; masks tell from 2 to {MOST_CLASSES} apart")
    every = label_checks.names_of_outputs(train, count)
    if not pixel_counts(train, count).any() and hasattr(train, "read"):
        raise DataError(f"{train.path}: no pixel of any mask counts; there is nothing to learn from")
    if val is not None:
        check(val, every)
    return every


def check(dataset: Dataset, class_names: list[str]) -> None:
    """Refuse a data set that a net of these classes cannot be trained or evaluated on, with a DataError."""
    label_checks.refuse_other_names(dataset, class_names)
    pixel_counts(dataset, len(class_names))


def pixel_counts(dataset: Any, num_classes: int) -> Array:
    """Return how many pixels each class has in masks at even distances; zeros where they are not known beforehand.

    A record without a mask is the loader's to name or to pass over; DataError where all are, and for a class that there
    is not.
    """
    counts = np.zeros(num_classes, np.int64)
    if not hasattr(dataset, "read") or not len(dataset):
        return counts
    number = min(len(dataset), MOST_READ)
    num_masks, problem = 0, ""
    for position in (np.arange(number) * len(dataset) // number).tolist():
        try:
            _, mask = mask_fields.picture_and_mask(dataset.read(position))
        except (BadSample, DataError) as bad:
            problem = problem or f"{dataset.where(position)}: {bad}"
            continue
        try:
            mask_fields.check_classes(mask, num_classes)
        except BadSample as bad:
            raise DataError(f"{dataset.where(position)}: {bad}") from None
        num_masks += 1
        counts += np.bincount(mask.ravel(), minlength=IGNORED + 1)[:num_classes]
    if not num_masks:
        raise DataError(problem)
    return counts


def weights(text: str, train: Dataset, names: list[str]) -> list[float] | None:
    """Return how much a pixel of each class counts, as --class-weights `text` says; None where all count alike."""
    if text != class_weights.AUTO:
        return class_weights.of_classes(text, train, names)
    counts = pixel_counts(train, len(names))
    if not counts.any():
        raise UsageError(
            f"--class-weights auto: the masks of --train {train.path} are not known beforehand; give numbers, a file "
            "or none"
        )
    return class_weights.balanced(counts)
