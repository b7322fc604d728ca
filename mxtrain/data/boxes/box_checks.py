"""The checks of boxes before training: that each record has boxes, and of which classes they are.

Owns the number of classes and their names. Boxes that lie outside their pictures, or are empty, are found by `check`
of the packer; what a run cannot learn from is refused here.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np

from mxtrain.config.checks.bounds import MOST_CLASSES
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.augment.box_transforms import BoxTransform
from mxtrain.data.boxes import box_fields, box_labels
from mxtrain.data.fields import Array
from mxtrain.data.interfaces import Dataset
from mxtrain.data.labels import label_checks
from mxtrain.data.user.streams import Stream


def class_names(train: Dataset, val: Dataset | None, num_classes: int) -> list[str]:
    """Check the boxes of both data sets, and return a name for each class; one without a name has its number.

    `num_classes` is --num-classes; 0 takes as many as the training set has. DataError names the first record, or file,
    that does not fit.
    """
    count = label_checks.num_listed(train, num_classes)
    largest = _largest_class(train, count or MOST_CLASSES)
    if largest < 0 and hasattr(train, "label_rows"):
        raise DataError(f"{train.path}: has no box in any picture; there is nothing to learn from")
    if largest < 0 and not count:
        raise UsageError(f"{train.path}: its boxes are not known beforehand; give --num-classes")
    every = label_checks.names_of_outputs(train, count or largest + 1)
    if val is not None:
        check(val, every)
    return every


def refuse_mixing(change: BoxTransform, train: Dataset) -> None:
    """Refuse what puts several samples into one where these pass by but once, with a UsageError."""
    if change.mixes and isinstance(train, Stream):
        raise UsageError(
            f"--augment: mosaic and mixup draw other samples, and those of {train.path} pass by once; leave them out"
        )


def check(dataset: Dataset, class_names: list[str]) -> None:
    """Refuse a data set that a detector of these classes cannot be trained or evaluated on, with a DataError."""
    label_checks.refuse_other_names(dataset, class_names)
    _largest_class(dataset, len(class_names))


def _largest_class(dataset: Dataset, num_classes: int) -> int:
    """Return the largest class of all boxes; -1 where there is none, or where labels are not known beforehand."""
    every: list[Array] = []
    for position, label in enumerate(dataset.label_rows() if hasattr(dataset, "label_rows") else ()):
        try:
            boxes = box_labels.boxes_of(label, 1, 1)
            if (np.abs(boxes[:, :4]) > box_labels.MOST_SHARE).any():
                raise ValueError(
                    "its boxes are in pixels, and have to be shares of its width and height; pack it again"
                )
        except ValueError as bad:
            raise DataError(f"{dataset.where(position)}: {bad}") from None
        every.append(boxes[:, 4])
    _refuse_classes(dataset, every, num_classes)
    return int(max((classes.max(initial=-1) for classes in every), default=-1))


def _refuse_classes(dataset: Dataset, every: Sequence[Array], num_classes: int) -> None:
    """Refuse classes out of range, by the first record; where they seem to be numbered from 1, say so."""
    for position, classes in enumerate(every):
        try:
            box_fields.check_classes(classes, num_classes)
        except ValueError as bad:
            from_one = not any((each == 0).any() for each in every)
            hint = "; no box has class 0: number classes from 0 when packing" if from_one else ""
            raise DataError(f"{dataset.where(position)}: {bad}{hint}") from None
