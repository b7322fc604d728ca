"""Targets of tables: which columns they are where nobody says it, and the labels that they make."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

import numpy as np

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays import encodings
from mxtrain.data.arrays.array_sets import TARGETS
from mxtrain.data.arrays.table_columns import Cells, Column, Columns, Other, Ragged, Words, listed
from mxtrain.data.fields import Array
from mxtrain.data.labels import label_precision


def default_targets(path: Path, columns: Columns) -> list[str]:
    """Return the column that is to be predicted where no flag says it; UsageError where none has such a name."""
    for name in TARGETS:
        if name in columns:
            return [name]
    raise UsageError(
        f"{path}: what is to be predicted? give --target and names of its columns ({listed(columns)})"
    )


def labels_of(path: Path, columns: Columns) -> tuple[Array, list[str] | None, tuple[str, ...]]:
    """Return labels, the names of classes where they are words, and the names of the targets."""
    columns = {name: each.numbers if isinstance(each, Cells) else each for name, each in columns.items()}
    dates = next((name for name, column in columns.items() if encodings.is_of_dates(column)), None)
    if dates is not None:
        raise DataError(f"{path}: {dates} holds dates, and cannot be predicted; put numbers in their place")
    words = [name for name, column in columns.items() if isinstance(column, Words)]
    if words:
        if len(columns) > 1:
            raise DataError(
                f"{path}: {words[0]} holds words, and is one of several targets; predict it alone"
            )
        return *_classes(path, words[0], columns[words[0]].words), (words[0],)
    parts, names = [], []
    for name, column in columns.items():
        if isinstance(column, (Ragged, Other)) or column.ndim > 2 or column.dtype.kind not in "biuf":
            raise DataError(
                f"{path}: {name} cannot be predicted: give one number a sample, or a row of as many in all"
            )
        values = np.asarray(column)
        parts.append(values.reshape(len(values), -1))
        width = parts[-1].shape[1]
        names += [name] if width == 1 else [f"{name}{place}" for place in range(width)]
    labels = label_precision.of_labels(np.concatenate(parts, axis=1))
    return labels[:, 0] if labels.shape[1] == 1 else labels, None, tuple(names)


def with_weights(path: Path, name: str, column: Column, labels: Array) -> Array:
    """Return labels with one more number each, its weight."""
    weights = column.numbers if isinstance(column, Cells) else column
    if isinstance(weights, (Ragged, Other, Words)) or weights.ndim > 1 or weights.dtype.kind not in "biuf":
        raise DataError(f"{path}: {name} cannot say how much samples count: give one number a sample")
    rows = labels.reshape(len(labels), -1)
    return np.concatenate([rows, np.asarray(weights).astype(rows.dtype)[:, None]], axis=1)


def _classes(path: Path, name: str, words: Sequence[str]) -> tuple[Array, list[str]]:
    names = sorted(set(words) - {""})
    for class_name in names:
        if any(character in class_name for character in "\t\r\n"):
            raise DataError(
                f"{path}: {name} has a class {class_name!r} with a tab or a line break in it: rename it"
            )
    of_name = {class_name: float(number) for number, class_name in enumerate(names)}
    return np.array([of_name.get(word, np.nan) for word in words], np.float32), names
