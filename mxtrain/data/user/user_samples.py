"""Samples and batches of the user's own Datasets, arrays and DataLoaders, as records and named arrays.

Owns what such an item looks like where a task says nothing else. Does not read data sets (`user_datasets.py`).
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from mxtrain.core.errors import UsageError
from mxtrain.data.fields import Array, Arrays, Field
from mxtrain.data.interfaces import Record


def record_of_pair(key: int, item: object, user: str) -> Record:
    """Return the record of a pair (x, y), with x for its payload and y, a number or several, for its label."""
    x, y = pair(key, item, user)
    try:
        label = np.asarray(to_numpy(y), np.float64)
    except (TypeError, ValueError):
        raise UsageError(
            f"{user}: gives a {type(y).__name__} as the label of sample {key}; give a number, or an array of them"
        ) from None
    return Record(key, float(label) if label.ndim == 0 else label, in_numpy(x))


def pair(key: int, item: object, user: str) -> tuple[Any, Any]:
    """Return the two parts of an item (x, y)."""
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        parts = f" of {len(item)}" if isinstance(item, (tuple, list)) else ""
        raise UsageError(f"{user}: gives a {type(item).__name__}{parts} for sample {key}; give a pair (x, y)")
    return item[0], item[1]


def arrays_of_batch(fields: Sequence[Field], batch_size: int, batch: object, user: str) -> Arrays:
    """Return a batch's arrays by name, compared with `fields`; UsageError where they are something else."""
    names = [field.name for field in fields]
    if not isinstance(batch, Mapping):
        if not isinstance(batch, (tuple, list)) or len(batch) != len(fields):
            raise UsageError(
                f"{user}: gave a {type(batch).__name__} for a batch; give {len(fields)} arrays, {', '.join(names)}, "
                "by name or in this order"
            )
        batch = dict(zip(names, batch))
    if sorted(batch) != sorted(names):
        raise UsageError(f"{user}: gave arrays called {', '.join(map(str, batch))}; give {', '.join(names)}")
    return {field.name: _of_batch(field, batch_size, batch[field.name], user) for field in fields}


def _of_batch(field: Field, batch_size: int, data: object, user: str) -> Array:
    try:
        # A copy: `prepare` may work in place, and this may be the user's own array.
        array = np.array(to_numpy(data), field.dtype, order="C")
    except (TypeError, ValueError) as error:
        raise UsageError(f"{user}: gave no array of {field.dtype} for {field.name} ({error})") from None
    if len(array.shape) < 1 or len(array) != batch_size or not field.fits(array.shape[1:]):
        raise UsageError(
            f"{user}: gave {field.name} of shape {array.shape}; give --batch-size {batch_size} samples of {field}"
        )
    return array


def in_numpy(value: object) -> Any:
    """Return an array of MXNet, or a table or a column of pandas, as NumPy's, and anything else as it is."""
    for method in ("asnumpy", "to_numpy"):
        if hasattr(value, method):
            return getattr(value, method)()
    return value


def to_numpy(array: object) -> Array:
    """Return an array of MXNet, or what NumPy makes one of."""
    return np.asarray(in_numpy(array))
