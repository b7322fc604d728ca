"""Numbers to be predicted: which labels are some, their names, and the statistics by which they are standardised."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple, Sequence

import numpy as np

from mxtrain.core.errors import DataError
from mxtrain.data.arrays import statistics
from mxtrain.data.arrays.statistics import Statistics
from mxtrain.data.interfaces import Dataset
from mxtrain.data.records.recordio import Floats

logger = logging.getLogger(__name__)


class Numbers(NamedTuple):
    """One or more numbers that each sample has, by names."""

    names: tuple[str, ...]
    statistics: Statistics
    dtype: str = "float32"  # in which they are compared with answers

    @property
    def num(self) -> int:
        return len(self.names)

    def as_json(self) -> dict[str, Any]:
        mean, deviation = self.statistics
        found = {"names": list(self.names), "mean": mean.tolist(), "deviation": deviation.tolist()}
        return found if self.dtype == "float32" else {**found, "dtype": self.dtype}


def numbers_of_json(described: dict[str, Any]) -> Numbers:
    """Return the numbers that `as_json` has described."""
    mean, deviation = (np.array(described[each], np.float64) for each in ("mean", "deviation"))
    return Numbers(tuple(described["names"]), Statistics(mean, deviation), described.get("dtype", "float32"))


def names_of(train: Dataset) -> tuple[str, ...]:
    """Return the names of the numbers of a label: a class list of as many lines names them."""
    labels, names = train.labels(), tuple(train.class_names or ())
    is_named = labels.ndim == 2 and len(names) == labels.shape[1]
    return names if is_named and any(name != str(place) for place, name in enumerate(names)) else ()


def check_targets(train: Dataset, val: Dataset | None = None, names: tuple[str, ...] = ()) -> Numbers:
    """Check the labels of both data sets, and return what they are; DataError where they are no numbers to predict.

    `names` are those of the targets; without them a class list of as many lines names them, or else they are numbered.
    """
    if (
        not names
        and train.class_names
        and any(name != str(place) for place, name in enumerate(train.class_names))
    ):
        columns = labels_of(train, 0).shape[1]
        if columns != len(train.class_names):
            raise DataError(
                f"{train.path}: its labels are classes ('{train.class_names[0]}' and others), not numbers; give --task "
                "classification, or pack it with numbers"
            )
        names = tuple(train.class_names)
    labels = labels_of(train, len(names))
    names = names or tuple(f"target{place}" for place in range(labels.shape[1]))
    described = Numbers(names, statistics.of_chunks(lambda: [labels], len(names)), _dtype_of(train, val))
    _warn_of_constants(train, labels, names, "there is nothing to learn of it")
    if val is not None:
        check(val, described)
    return described


def _dtype_of(*datasets: Dataset | None) -> str:
    """Return the finest type of labels."""
    return str(np.result_type(np.float32, *(each.labels() for each in datasets if each is not None)))


def _warn_of_constants(dataset: Dataset, labels: Floats, names: Sequence[str], result: str) -> None:
    for name, column in zip(names, labels.T):
        if len(column) > 1 and (column == column[0]).all():
            logger.warning("%s: %s is %.10g in all samples: %s", dataset.path, name, column[0], result)


def check(dataset: Dataset, known: Numbers) -> None:
    """Refuse a data set whose labels are not as many numbers as those known, with a DataError."""
    labels = labels_of(dataset, known.num)
    if np.can_cast(labels.dtype, known.dtype, "safe"):
        _warn_of_constants(
            dataset, labels, known.names, "r2 is 1 where all answers are that number, and 0 where one is not"
        )
        return
    raise DataError(
        f"{dataset.path}: what is to be predicted changes too little for numbers so large, and the net was trained "
        f"on {known.dtype}, which would cut that away; train with such data as --val"
    )


def labels_of(dataset: Dataset, num: int) -> Floats:
    """Return labels as rows of `num` finite numbers (0: as many as there are); DataError names the first other one."""
    labels = dataset.labels()
    if not len(labels):
        raise DataError(
            f"{dataset.path}: its labels are not known before it is read, or not as many for each sample; give a "
            ".rec, arrays or a Dataset of (x, y) with as many numbers in each y"
        )
    rows = labels.reshape(len(labels), -1)
    if num not in (0, rows.shape[1]):
        raise DataError(
            f"{dataset.path}: has {rows.shape[1]} numbers to predict a sample, the training set {num}"
        )
    wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(wrong):
        raise DataError(
            f"{dataset.where(int(wrong[0]))} has a number to predict that is not finite; {len(wrong)} such samples: "
            "pack again without them"
        )
    return rows
