"""Ids each once, and sums of rows with equal ids, in the order in which they are listed."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from mxtrain import native
from mxtrain.core import exact_sum


def distinct(ids: Any) -> tuple[Any, Any]:
    """Return each of some int64 ids once, in whatever order, and the position of each id among these."""
    if native.distinct_ids is None:
        unique, positions = np.unique(ids, return_inverse=True)
        return unique, positions.reshape(-1)
    ids = np.ascontiguousarray(ids)
    places = np.empty(1 << (2 * len(ids)).bit_length(), np.int32)
    unique, positions = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
    count = native.distinct_ids(ids, places, unique, positions)
    return unique[:count].copy(), positions


def sum_by_id(ids: Sequence[Any], rows: Sequence[Any]) -> tuple[Any, Any]:
    """Return each id of several lists once, and the float32 sum of its rows, added one by one as they are listed."""
    unique, positions = distinct(np.concatenate(ids))
    sums, start = np.zeros((len(unique), rows[0].shape[1]), np.float32), 0
    for each in rows:
        _add(sums, positions[start : start + len(each)], each)
        start += len(each)
    return unique, sums


def summed(positions: Any, rows: Any, count: int) -> Any:
    """Return `count` sums of rows: each is added to the sum at its position, in their order."""
    sums = np.zeros((count, rows.shape[1]), np.float32)
    _add(sums, positions, rows)
    return sums


def _add(sums: Any, positions: Any, rows: Any) -> None:
    if native.add_rows is not None:
        rows = np.ascontiguousarray(rows, np.float32)
        native.add_rows(sums, np.ascontiguousarray(positions, np.int64), rows)
    else:
        np.add.at(sums, positions, rows)


def take(rows: Any, positions: Any, out: Any) -> None:
    """Write the row at each position into `out`, which is as long as these."""
    if native.take_rows is not None:
        native.take_rows(rows, np.ascontiguousarray(positions, np.int64), out)
    else:
        np.take(rows, positions, axis=0, out=out)


def sum_of_squares(rows: Any) -> int | None:
    """Return the exact sum of the squares of rows, each of which is added column by column; None for no number.

    It is a whole number as `core/exact_sum.py` has them.
    """
    of_rows = _squares(rows)
    # In float32 the square of such a number is infinite, as it is in the norm of other gradients.
    if not (of_rows < np.finfo(np.float32).max).all():
        return None
    if native.add_by_exponent is None:
        return exact_sum.of(of_rows)
    sums = np.zeros((exact_sum.NUM_EXPONENTS, 2), np.int64)
    native.add_by_exponent(of_rows, sums)
    return exact_sum.of_sums(sums)


def _squares(rows: Any) -> Any:
    """Return the float64 sum of the squares of each row, added column by column."""
    sums = np.zeros(len(rows))
    if native.square_rows is not None:
        native.square_rows(np.ascontiguousarray(rows, np.float32), sums)
    else:
        for column in rows.T:
            sums += np.square(column, dtype=np.float64)
    return sums
