"""Columns of a Python program: a mapping of arrays by name, or a DataFrame, as the columns that a file would have.

Owns the way from a program's types to those of `table_columns.py`. pandas is never imported: what has `columns` and an
item for each is a frame.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Mapping, Sequence

import numpy as np

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays import table_files
from mxtrain.data.arrays.table_columns import Column, Columns, Ragged, Words
from mxtrain.data.fields import Array
from mxtrain.data.user.user_samples import in_numpy

LARGEST_WHOLE = 1 << 53  # from here on neighbours are one float64
_MISSING_TYPES = ("NAType", "NaTType")  # of pandas


def is_frame(data: object) -> bool:
    """Return whether an object is a DataFrame."""
    return hasattr(data, "to_numpy") and hasattr(data, "columns")


def holds_columns(data: object) -> bool:
    """Return whether an object is a table: a mapping, or a DataFrame."""
    return isinstance(data, Mapping) or is_frame(data)


def columns_of(data: Any, where: str) -> Columns:
    """Return the columns of a mapping or a DataFrame, whose index is none of them.

    Args:
        data: arrays, lists or columns of pandas by name.
        where: the beginning of messages.

    Returns:
        the columns, as `table_files.read` returns those of a file; DataError names one that is none.
    """
    names = list(data.columns) if is_frame(data) else list(data)
    repeated = [name for place, name in enumerate(names) if name in names[:place]]
    if repeated:
        raise UsageError(f"{where}: names column {repeated[0]!r} twice; name each once")
    columns = {str(name): _column(data[name], where, str(name)) for name in names}
    return table_files.checked(where, columns)


def _column(of_program: object, where: str, name: str) -> Column:
    values = in_numpy(of_program)
    if isinstance(values, str) or not hasattr(values, "__len__"):
        raise UsageError(
            f"{where}: {name} is a {type(values).__name__}; give an array or a list, a value for each sample"
        )
    try:
        column = np.asarray(values)
    except ValueError:  # lists of different lengths
        column = _objects(values)
    if column.dtype.kind == "O":
        return _of_objects(column.tolist(), f"{where}: {name}")
    if column.dtype.kind not in "biufUSM":
        raise DataError(f"{where}: {name} holds {column.dtype}, no ids and no numbers")
    # A list of numbers and texts has become one of texts, and one of large numbers of floats: begin with the objects.
    if not isinstance(values, np.ndarray) and column.ndim == 1 and column.dtype.kind in "fU":
        return _of_objects(list(values), f"{where}: {name}")
    return table_files.of_array(where, name, column)


def _objects(values: Any) -> Array:
    found = np.empty(len(values), object)
    found[:] = list(values)
    return found


def _of_objects(cells: Sequence[Any], where: str) -> Column:
    """Return a column of Python's objects: numbers, texts or both, some of which are missing, or lists of them."""
    is_missing = np.array([_is_missing(cell) for cell in cells], bool)
    present = [cell for cell, missing in zip(cells, is_missing) if not missing]
    if any(isinstance(cell, (list, tuple, np.ndarray)) for cell in present):
        rows = [[] if missing else cell for cell, missing in zip(cells, is_missing)]
        return _of_lists(rows, where)
    if all(isinstance(cell, (Real, np.bool_)) for cell in present):
        numbers = np.array([0 if missing else cell for cell, missing in zip(cells, is_missing)])
        if not is_missing.any() and numbers.dtype.kind in "biuf" and not _is_rounded(present, numbers):
            return numbers
        if not any(map(_is_large, present)):
            return np.where(is_missing, np.nan, numbers.astype(np.float64))
    return Words(["" if missing else str(cell) for cell, missing in zip(cells, is_missing)])


def _is_rounded(cells: Sequence[Any], numbers: Array) -> bool:
    """Return whether whole numbers were too large for the floats that they became."""
    return numbers.dtype.kind == "f" and any(map(_is_large, cells))


def _is_large(cell: Any) -> bool:
    return isinstance(cell, Integral) and abs(int(cell)) >= LARGEST_WHOLE


def _of_lists(rows: Sequence[Any], where: str) -> Ragged:
    odd = next((row for row in rows if not isinstance(row, (list, tuple, np.ndarray))), None)
    if odd is not None:
        raise DataError(f"{where} holds lists, and {odd!r} among them; give a list in each row")
    items = [item for row in rows for item in row if not _is_missing(item)]
    lengths = [sum(not _is_missing(item) for item in row) for row in rows]
    if any(isinstance(item, (list, tuple, np.ndarray)) for item in items):
        raise DataError(f"{where} holds lists of lists; leave it out by --exclude")
    column = _of_objects(items, where) if items else np.zeros(0, np.int64)
    return Ragged(np.array(column.words, str) if isinstance(column, Words) else column, lengths)


def _is_missing(cell: object) -> bool:
    is_nan = isinstance(cell, (float, np.floating)) and cell != cell
    return cell is None or is_nan or type(cell).__name__ in _MISSING_TYPES
