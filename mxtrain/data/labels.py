"""What a classifier's labels must be, held against the records before training starts.

Owns the number of classes and their names. MXNet clips a label that is out of range without a word, so it is
looked for here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxtrain.config.bounds import MOST_CLASSES
from mxtrain.core.errors import DataError
from mxtrain.data.record_sets import AnyRecords


def class_names(train: AnyRecords, val: AnyRecords | None, num_classes: int) -> list[str]:
    """One name for each output of the net; `num_classes` 0 takes as many as the training set has."""
    names, labels = train.class_names, _labels(train)
    _refuse_measurements(train, labels)
    count = num_classes or (len(names) if names else _num_classes(train, labels))
    if names and len(names) > count:
        raise DataError(
            f"{train.path}: has {len(names)} classes, but --num-classes is {count}; leave it out or raise it"
        )
    if count < 2:
        raise DataError(f"{train.path}: holds {count} class; a classifier needs at least two")
    outputs = [names[i] if names and i < len(names) else str(i) for i in range(count)]
    for records in [train] if val is None else [train, val]:
        check(records, outputs)
    return outputs


def _labels(records: AnyRecords) -> Any:
    for path in getattr(records, "files", []):
        if path.with_suffix(".tokens.json").exists():
            raise DataError(f"{path}: holds text; --task classification takes pictures")
    labels = records.labels()
    if labels.ndim > 1 and labels.shape[1] != 1:
        raise DataError(
            f"{records.path}: has {labels.shape[1]} labels a record; --task classification takes one"
        )
    return labels.ravel()  # other tools also write arrays of one


def check(records: AnyRecords, class_names: list[str]) -> None:
    """Refuse records that a net with these outputs cannot be trained or judged on."""
    own = records.class_names or []
    for number, name in enumerate(own):
        if number >= len(class_names) or name != class_names[number]:
            expected = f"'{class_names[number]}'" if number < len(class_names) else "no such class"
            raise DataError(
                f"{records.path}: its class {number} is '{name}', the net's is {expected}; "
                "pack training and validation together"
            )
    labels, count = _labels(records), len(class_names)
    _refuse_measurements(records, labels)
    wrong = np.flatnonzero((labels < 0) | (labels >= count))
    if len(wrong):
        first = int(wrong[0])
        raise DataError(
            f"{records.where(first)} has label {labels[first]:g}, but there are {count} classes (0 to {count - 1}); "
            f"{len(wrong)} such records; give --num-classes or pack again"
        )


def _refuse_measurements(records: AnyRecords, labels: Any) -> None:
    """Labels to regress on are no classes, however many there are of them."""
    odd = np.flatnonzero(labels != np.floor(labels))  # NaN is among them: it equals nothing
    if len(odd):
        first = int(odd[0])
        raise DataError(
            f"{records.where(first)} has label {labels[first]:g}, {len(odd)} of {len(labels)} labels are not whole "
            "numbers; --task classification takes classes numbered from 0: pack again with names or numbers of classes"
        )


def _num_classes(records: AnyRecords, labels: Any) -> int:
    """As many as the largest label numbers; one label that is damaged must not ask for memory without end."""
    wrong = np.flatnonzero((labels < 0) | (labels >= MOST_CLASSES))
    if len(wrong):
        first = int(wrong[0])
        raise DataError(
            f"{records.where(first)} has label {labels[first]:.10g}, which is no class: those are whole numbers from 0 "
            f"to {MOST_CLASSES - 1}; {len(wrong)} such records: pack again without them, or with other labels"
        )
    return int(labels.max()) + 1
