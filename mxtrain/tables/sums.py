"""Sums of rows with equal ids, in the order in which they are listed."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxtrain import native


def sum_by_id(ids: Any, rows: Any) -> tuple[Any, Any]:
    """Return each id once, ascending, and the float32 sum of its rows, added one by one as they are listed."""
    if (ids[1:] > ids[:-1]).all():  # as of a single micro-batch
        return ids, np.ascontiguousarray(rows, np.float32)
    unique, positions = np.unique(ids, return_inverse=True)
    if len(unique) == len(ids):
        order = np.argsort(ids, kind="stable")
        return unique, np.ascontiguousarray(rows[order], np.float32)
    return unique, summed(positions.reshape(-1), np.ascontiguousarray(rows, np.float32), len(unique))


def summed(positions: Any, rows: Any, count: int) -> Any:
    """Return `count` sums of rows: each is added to the sum at its position, in their order."""
    sums = np.zeros((count, rows.shape[1]), np.float32)
    if native.add_rows is not None:
        native.add_rows(sums, np.ascontiguousarray(positions, np.int64), rows)
    else:
        np.add.at(sums, positions, rows)
    return sums


def squares(rows: Any) -> Any:
    """Return the float64 sum of the squares of each row, added column by column."""
    sums = np.zeros(len(rows))
    if native.square_rows is not None:
        native.square_rows(np.ascontiguousarray(rows, np.float32), sums)
    else:
        for column in rows.T:
            sums += np.square(column, dtype=np.float64)
    return sums
