"""The checks of a classifier's labels, one class a sample or a 0 or 1 for each: before training, or as they come.

Owns the number of classes and their names. MXNet silently clips a label that is out of range, so it is refused here.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np

from mxtrain.config.checks.bounds import MOST_CLASSES
from mxtrain.core.errors import DataError
from mxtrain.data.fields import Array, BadSample
from mxtrain.data.interfaces import Dataset
from mxtrain.data.records.recordio import Label


def class_names(train: Dataset, val: Dataset | None, num_classes: int, of_text: bool = False) -> list[str]:
    """Check the labels of both data sets, and return one name for each output of the net.

    `num_classes` is --num-classes; 0 takes as many as the training set has. A class without a name is called by its
    number. DataError names the first record, or file, that does not fit.
    """
    labels = _class_labels(train, of_text)
    count = num_listed(train, num_classes) or _num_classes(train, labels)
    if count < 2:
        raise DataError(
            f"{train.path}: holds {count} class; a classifier needs at least two{_instead_of_one(labels)}"
        )
    outputs = names_of_outputs(train, count)
    _refuse_out_of_range(train, labels, count, "give --num-classes or pack again")
    if val is not None:
        check(val, outputs, of_text)
    return outputs


def num_listed(train: Dataset, num_classes: int) -> int:
    """Return --num-classes, where it is 0 as many as the class list names; 0 where neither says so.

    DataError where the list has more.
    """
    num_names = len(train.class_names or ())
    if num_classes and num_names > num_classes:
        raise DataError(
            f"{train.path}: has {num_names} classes, but --num-classes is {num_classes}; leave it out or raise it"
        )
    return num_classes or num_names


def names_of_outputs(train: Dataset, count: int) -> list[str]:
    """Return so many names of classes: those of the class list, and numbers where it ends."""
    names = train.class_names or []
    return [*names[:count], *map(str, range(len(names), count))]


def _instead_of_one(labels: Array) -> str:
    """Return what labels are that no class list of one name could number: it names a number or a label of each."""
    if not labels.any():
        return ""
    if are_yes_or_no(labels):
        return "; --task multilabel learns a yes or no"
    return f"; its labels are numbers: {_AS_NUMBERS}"


def check(dataset: Dataset, class_names: list[str], of_text: bool = False) -> None:
    """Refuse a data set that a net with these outputs cannot be trained or evaluated on, with a DataError."""
    refuse_other_names(dataset, class_names)
    labels = _class_labels(dataset, of_text)
    _refuse_out_of_range(dataset, labels, len(class_names), "pack training and validation together")


_AS_NUMBERS = "--task regression learns numbers of pictures, --task arrays --loss l2 those of arrays"


def are_yes_or_no(labels: Label | Array) -> bool:
    """Return whether labels, one or several of each sample, are all yes, no or unknown, and no other numbers."""
    return bool(np.isin(labels, (-1, 0, 1)).all())


YES_OR_NO = "of several labels each is 1 (yes), 0 (no) or -1 (unknown)"


def check_sample(label: Label, num_classes: int) -> None:
    """Raise BadSample for the label of a sample, which may come from a stream, that is none of so many classes."""
    if np.size(label) != 1:
        raise BadSample(f"it has {np.size(label)} labels; a sample has one class")
    number = float(np.ravel(label)[0])
    if not (0 <= number < num_classes and number % 1 == 0):  # as NaN is not
        raise BadSample(f"its label is {number:g}, but there are {num_classes} classes, numbered from 0")


def check_labels_of_sample(label: Label) -> None:
    """Raise BadSample for labels of a sample, which may come from a stream, that are not all yes, no or unknown."""
    if not are_yes_or_no(label):
        wrong = np.flatnonzero(~np.isin(label, (-1, 0, 1)))
        raise BadSample(f"its label {wrong[0]} is {np.ravel(label)[wrong[0]]:g}; {YES_OR_NO}")


def several_names(
    train: Dataset, val: Dataset | None, num_classes: int, names: Sequence[str] = ()
) -> list[str]:
    """Check data sets with several labels a sample, and return one name for each: 1 and 0 are yes and no, -1 unknown.

    `num_classes` is needed only where labels are not known beforehand. Where the data names its labels otherwise than
    by a class list, `names` are these.
    """
    labels = train.labels()
    count = labels.shape[1] if labels.ndim == 2 else num_classes
    if len(labels) and labels.ndim == 2 and num_classes not in (0, count):
        raise DataError(
            f"{train.path}: has {count} labels a record, but --num-classes is {num_classes}; leave it out"
        )
    if not count and len(labels):
        raise DataError(
            f"{train.path}: has one label a record; --task multilabel learns several, as pack --multi-label makes them"
        )
    if not count:
        raise DataError(
            f"{train.path}: has no rows of labels that are known beforehand; give --num-classes, or as many a sample"
        )
    own = names or train.class_names or []
    label_names = list(own) if len(own) == count else [str(number) for number in range(count)]
    check_several(train, label_names)
    if val is not None:
        check_several(val, label_names)
    return label_names


def check_several(dataset: Dataset, class_names: list[str]) -> None:
    """Refuse a data set whose labels are no rows of 0, 1 and -1 for these classes, with a DataError."""
    labels = dataset.labels()
    if not len(labels):
        return
    if labels.ndim != 2:
        raise DataError(
            f"{dataset.path}: has one label a record; --task multilabel takes a 0 or 1 for each class (packed with "
            "--multi-label), --task classification takes one"
        )
    if labels.shape[1] != len(class_names):
        raise DataError(
            f"{dataset.path}: has {labels.shape[1]} labels a record, the net {len(class_names)} classes; pack "
            "training and validation together"
        )
    refuse_other_names(dataset, class_names)
    wrong = np.argwhere(~np.isin(labels, (-1, 0, 1)))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise DataError(
            f"{dataset.where(row)} has label {labels[row, column]:g} for '{class_names[column]}'; {YES_OR_NO}; "
            f"{len(np.unique(wrong[:, 0]))} such records: pack again; {_AS_NUMBERS}"
        )


def refuse_other_names(dataset: Dataset, class_names: list[str]) -> None:
    """Refuse a data set whose class list has other names, or the same in another order."""
    own = dataset.class_names or []
    for number, name in enumerate(own):
        if number >= len(class_names) or name != class_names[number]:
            known = len(class_names)
            expected = f"the net's is '{class_names[number]}'" if number < known else f"the net knows {known}"
            raise DataError(
                f"{dataset.path}: its class {number} is '{name}', {expected}; pack training and validation together"
            )


def _class_labels(dataset: Dataset, of_text: bool) -> Array:
    """Return the labels, (n,), all of them whole numbers; DataError for text and for labels of other kinds."""
    for path in dataset.files:
        if not of_text and path.with_suffix(".tokens.json").exists():
            raise DataError(
                f"{path}: holds text; --task classification takes pictures, sequence_classification text"
            )
    labels = dataset.labels()
    if labels.ndim > 1 and labels.shape[1] != 1:
        instead = "--task multilabel learns several labels of pictures"
        if not are_yes_or_no(labels):
            instead = f"they are no classes but numbers: {_AS_NUMBERS}"
        raise DataError(
            f"{dataset.path}: has {labels.shape[1]} labels a record, and a sample has one class; {instead}"
        )
    labels = labels.ravel()  # other tools also write arrays of one
    fractions = np.flatnonzero(labels != np.floor(labels))  # NaN is among them: it equals nothing
    if len(fractions):
        first = int(fractions[0])
        raise DataError(
            f"{dataset.where(first)} has label {labels[first]:g}, {len(fractions)} of {len(labels)} labels are not "
            f"whole numbers, as numbers of classes are: pack again with names or numbers of classes; {_AS_NUMBERS}"
        )
    return labels


def _refuse_out_of_range(dataset: Dataset, labels: Array, count: int, advice: str) -> None:
    wrong = np.flatnonzero((labels < 0) | (labels >= count))
    if len(wrong):
        first = int(wrong[0])
        raise DataError(
            f"{dataset.where(first)} has label {labels[first]:g}, but there are {count} classes (0 to {count - 1}); "
            f"{len(wrong)} such records; {advice}"
        )


def _num_classes(dataset: Dataset, labels: Array) -> int:
    """Return the largest label plus one. The bound keeps one damaged label from asking for endless memory."""
    wrong = np.flatnonzero((labels < 0) | (labels >= MOST_CLASSES))
    if len(wrong):
        first = int(wrong[0])
        raise DataError(
            f"{dataset.where(first)} has label {labels[first]:.10g}, which is no class: those are whole numbers from 0 "
            f"to {MOST_CLASSES - 1}; {len(wrong)} such records: pack again without them, or with other labels"
        )
    return int(labels.max()) + 1
