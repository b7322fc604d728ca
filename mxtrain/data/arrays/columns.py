"""Arrays in memory as a Dataset: `(x, y)` are columns, whose rows are the samples.

Owns what objects of a Python program mean as data: a tuple holds columns in order, a mapping columns by name. Anything
else, as a list of samples, a Dataset or a DataLoader, is taken for what it is.
"""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np

from mxtrain.core.errors import UsageError
from mxtrain.data.arrays import program_columns
from mxtrain.data.user.user_samples import in_numpy, to_numpy


class Columns:
    """A Dataset of columns of the same length; its samples are tuples, or mappings where columns have names."""

    def __init__(self, columns: Any):
        self._columns = columns

    def __len__(self) -> int:
        columns = self._columns.values() if isinstance(self._columns, Mapping) else self._columns
        return len(next(iter(columns)))

    def __getitem__(self, position: int) -> Any:
        if isinstance(self._columns, Mapping):
            return {name: column[position] for name, column in self._columns.items()}
        return tuple(column[position] for column in self._columns)


def holds_pictures(data: object) -> bool:
    """Return whether samples are pictures, as far as the first one can be seen: uint8 (height, width, channels)."""
    if program_columns.is_frame(data):
        return False
    dataset = dataset_of(data, "train")
    if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__") and len(dataset)):
        return True
    sample = dataset[0]
    if isinstance(sample, Mapping) or not isinstance(sample, (tuple, list)):
        return not isinstance(sample, Mapping)
    first = to_numpy(sample[0]) if not isinstance(sample[0], Mapping) else None
    return first is not None and first.dtype == np.uint8 and first.ndim == 3


def dataset_of(data: object, user: str) -> Any:
    """Return `data` as a Dataset or DataLoader; `user` begins the message of a refusal."""
    if hasattr(data, "to_numpy"):
        raise UsageError(f"{user}: a {type(data).__name__} alone; give (x, y), two parts of it")
    if not isinstance(data, (tuple, Mapping)):
        return data
    named = data if isinstance(data, Mapping) else dict(enumerate(data))
    columns = {name: in_numpy(column) for name, column in named.items()}
    for name, column in columns.items():
        if not hasattr(column, "__len__") or not hasattr(column, "__getitem__"):
            raise UsageError(
                f"{user}: column {name} is a {type(column).__name__}; give arrays or lists, as in (x, y)"
            )
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        shown = ", ".join(f"{name}: {length}" for name, length in lengths.items()) or "none"
        raise UsageError(f"{user}: columns of different lengths ({shown}); give one row for each sample")
    return Columns(columns if isinstance(data, Mapping) else tuple(columns.values()))
