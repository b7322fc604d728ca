"""Ids each once, sums of rows with equal ids, in the order in which they are listed, and sums over samples' fields.

The part in C and NumPy have the same bits: rows are added one after the other, columns from left to right.
"""

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


def take_fields(rows: Any, positions: Any, vectors: Any, sums: Any, squares: Any) -> None:
    """Write what samples have of float32 `rows`, each with some weights and then a vector.

    `positions` are those of each sample's fields, one sample after the other. `vectors` takes the vectors (samples,
    fields, width), `sums` the sums of rows over the fields (samples, weights + width), and `squares` the sum of all
    squares of a sample's vectors (samples, 1).
    """
    if native.take_fields is not None:
        native.take_fields(rows, np.ascontiguousarray(positions, np.int64), vectors, sums, squares)
        return
    samples, fields, width = vectors.shape
    num_weights = sums.shape[1] - width
    taken = rows[positions].reshape((samples, fields, num_weights + width))
    vectors[:] = taken[:, :, num_weights:]
    sums[:] = 0
    of_columns = np.zeros((samples, width), np.float32)
    for field in range(fields):
        sums += taken[:, field]
        of_columns += np.square(vectors[:, field])
    squares[:] = 0
    for column in of_columns.T:
        squares[:, 0] += column


def field_gradients(
    positions: Any,
    count: int,
    num_weights: int,
    vectors: Any,
    of_vectors: Any,
    of_sums: Any,
    of_squares: Any,
) -> Any:
    """Return the gradients of `count` rows, from those of what `take_fields` has made of them.

    They are added in the order of positions.
    """
    samples, fields, width = vectors.shape
    positions = np.ascontiguousarray(positions, np.int64)
    if native.add_fields is not None:
        found = np.zeros((count, num_weights + width), np.float32)
        native.add_fields(found, positions, vectors, of_vectors, of_sums, of_squares)
        return found
    of_all = np.empty((samples, fields, num_weights + width), np.float32)
    of_all[:] = of_sums[:, None]
    of_all[:, :, num_weights:] += of_vectors
    of_all[:, :, num_weights:] += (2 * of_squares)[:, :, None] * vectors
    return summed(positions, of_all.reshape((samples * fields, num_weights + width)), count)


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
