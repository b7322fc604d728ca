"""Sums over the fields of samples, of the rows that each field has in a table, and the gradients of these rows.

The part in C and NumPy have the same bits: fields are added one after the other, then columns from left to right.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxtrain import native
from mxtrain.tables import sums as row_sums


def take(rows: Any, positions: Any, vectors: Any, sums: Any, squares: Any) -> None:
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
    taken = rows[positions].reshape(samples, fields, num_weights + width)
    vectors[:] = taken[:, :, num_weights:]
    sums[:] = 0
    of_columns = np.zeros((samples, width), np.float32)
    for field in range(fields):
        sums += taken[:, field]
        of_columns += np.square(vectors[:, field])
    squares[:] = 0
    for column in of_columns.T:
        squares[:, 0] += column


def gradients(
    positions: Any,
    count: int,
    num_weights: int,
    vectors: Any,
    of_vectors: Any,
    of_sums: Any,
    of_squares: Any,
) -> Any:
    """Return the gradients of `count` rows, from those of what `take` has made of them, added in the order of positions."""
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
    return row_sums.summed(positions, of_all.reshape(samples * fields, -1), count)
