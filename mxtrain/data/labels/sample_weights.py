"""The weight of each sample in a training loss: `--sample-weight`.

A weight lies beside what is to be predicted, as one more number of a sample's labels. Owns finding and checking it, and
taking it out of samples as they are read. What it does to a loss is the task's; evaluations count every sample once.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, Optional, Sequence, TypeVar, cast

import numpy as np

from mxtrain.config import Data
from mxtrain.core.errors import DataError, UsageError, nearest
from mxtrain.data.fields import Arrays, BadSample, Field
from mxtrain.data.interfaces import Dataset, Record
from mxtrain.data.loading.assembly import SampleReader
from mxtrain.data.records.recordio import Floats

FLAG = "--sample-weight"
LAST = "last"  # the last number of each label, where labels have no names
FIELD = Field("sample_weight", ())
LARGEST = 1e6
Samples = TypeVar("Samples", bound=Optional[Dataset])


class WeightColumn(NamedTuple):
    """The place, from 0, and the name of the weight among the numbers of a label."""

    name: str
    place: int

    def __str__(self) -> str:
        return f"weighted by {self.name}"


class Weighted(NamedTuple):
    """Data sets as what is to be predicted alone, the names of that, and where weights were beside it."""

    train: Dataset
    val: Dataset | None
    names: tuple[str, ...]
    column: WeightColumn | None = None

    @property
    def described(self) -> dict[str, Any]:
        """The column for a task's description; nothing where all samples count alike."""
        return {} if self.column is None else {FIELD.name: list(self.column)}


def split(
    data: Data, train: Dataset, val: Dataset | None, names: Sequence[str], packed: str = ""
) -> Weighted:
    """Return a training set and a validation set without the weights that `data` names; see `column_of`."""
    column = column_of(data.sample_weight, train, names, packed)
    if column is None:
        return Weighted(train, val, tuple(names))
    if data.sampling == "balanced":
        raise UsageError(
            f"--sampling balanced draws samples by their class, and {FLAG} weighs them; give one"
        )
    num_labels = train.labels().shape[1] - 1
    others = tuple(name for place, name in enumerate(names) if place != column.place)
    return Weighted(without(train, column, num_labels), without(val, column, num_labels), others, column)


def column_of(text: str, train: Dataset, names: Sequence[str], packed: str = "") -> WeightColumn | None:
    """Return the column that the flag's `text` names, and check its numbers; None where all samples count alike.

    Args:
        text: what the flag says; empty where it was left out.
        train: the training set, whose labels have the weights beside what is to be predicted.
        names: those of the numbers of a label, where they have some.
        packed: the name of the weights that the data set was packed with; empty without.
    """
    if packed and text not in ("", LAST, packed):
        raise UsageError(f"{FLAG} {text}: {train.path} is packed with the weights {packed}; leave it out")
    name = text or packed
    if not name:
        return None
    width = _width(name, train)
    if name == LAST and name not in names:
        place = width - 1
    elif name in names:
        place = list(names).index(name)
    else:
        known = f"they are {', '.join(names)}" if names else f"they have no names; {LAST} is the last of them"
        raise UsageError(
            f"{FLAG} {name}: {train.path} has {width} numbers a label, none of that name{nearest(name, names)} "
            f"({known})"
        )
    column = WeightColumn(names[place] if names else name, place)
    _check(column, train)
    return column


def column_of_json(described: Sequence[Any] | None) -> WeightColumn | None:
    """Return the column of a description, in which it is a list."""
    return None if described is None else WeightColumn(*described)


def _width(name: str, train: Dataset) -> int:
    labels = train.labels()
    if not len(labels) or labels.ndim < 2 or labels.shape[1] < 2:
        has = "one number a label" if len(labels) else "labels that are not known before it is read"
        raise UsageError(
            f"{FLAG} {name}: {train.path} has {has}; a weight is one more number beside what is to be predicted"
        )
    return int(labels.shape[1])


def _check(column: WeightColumn, train: Dataset) -> None:
    """Refuse weights that are none; DataError names the first."""
    weights = train.labels()[:, column.place]
    wrong = np.flatnonzero(~((weights >= 0) & (weights <= LARGEST)))  # as NaN is
    if len(wrong):
        first = int(wrong[0])
        raise DataError(
            f"{train.where(first)} has the weight {weights[first]:g} ({column.name}); give numbers from 0 to "
            f"{LARGEST:g}; {len(wrong)} such samples"
        )
    if not weights.any():
        raise DataError(
            f"{train.path}: no sample counts, as {column.name} is 0 in all; give some more than 0"
        )


class Unweighted:
    """A data set as what is to be predicted alone: its labels without the column of weights, if they have it."""

    def __init__(self, dataset: Dataset, column: WeightColumn, num_labels: int):
        self._dataset, self._column, self._num_labels = dataset, column, num_labels

    def __len__(self) -> int:
        return len(self._dataset)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._dataset, name)

    def labels(self) -> Floats:
        labels = self._dataset.labels()
        if labels.ndim < 2 or labels.shape[1] != self._num_labels + 1:
            return labels
        others: Floats = np.delete(labels, self._column.place, axis=1)
        return others[:, 0] if self._num_labels == 1 else others


def without(dataset: Samples, column: WeightColumn | None, num_labels: int) -> Samples:
    """Return a data set as what is to be predicted alone, `num_labels` numbers a sample; None stays None."""
    if column is None or dataset is None:
        return dataset
    return cast(Samples, Unweighted(dataset, column, num_labels))


@dataclasses.dataclass(frozen=True)
class WeightedReader:
    """The function from a record with a weight to a sample that has it as an array. A picklable value.

    In an evaluation each counts 1, and a record may have none.
    """

    reader: SampleReader
    column: WeightColumn
    num_labels: int  # without the weight
    is_training: bool

    def __call__(self, record: Record, rng: np.random.Generator, row: Arrays) -> Arrays:
        values = np.ravel(record.label)
        weight = 1.0
        if len(values) == self.num_labels + 1:
            weight = float(values[self.column.place]) if self.is_training else 1.0
            others = np.delete(values, self.column.place)
            record = record._replace(label=float(others[0]) if self.num_labels == 1 else others)
        elif self.is_training:
            raise BadSample(
                f"it has {len(values)} numbers for a label; {self.num_labels} and a weight are learnt"
            )
        if not 0 <= weight <= LARGEST:  # of a stream, whose samples nobody has checked before
            raise BadSample(f"its weight is {weight:g}; give numbers from 0 to {LARGEST:g}")
        row[FIELD.name][...] = weight
        read = self.reader(record, rng, row)
        return row if read is row else {**read, FIELD.name: row[FIELD.name]}


def reader(
    own: SampleReader, column: WeightColumn | None, num_labels: int, is_training: bool
) -> SampleReader:
    """Return the reader of samples that may have weights, from that of those that have none."""
    return own if column is None else WeightedReader(own, column, num_labels, is_training)
