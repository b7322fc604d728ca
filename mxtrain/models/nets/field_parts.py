"""The parts of fields' rows that heads take: each field's vector, the sum of all rows, and their vectors' squares.

A row has weights and then a vector. The parts are made where the rows are looked up, in one pass that has each row at
hand, and so are the rows' gradients from those of the parts: as operators of a graph they would be a dozen passes over
arrays that no cache holds. `of_rows` is such a graph, for exported nets and for rows that lie elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.runtime import mx
from mxtrain.runtime.memory import memory
from mxtrain.runtime.types import NDArray
from mxtrain.tables import field_sums


class Parts(NamedTuple):
    """The parts of the rows of some samples: arrays, or symbols of them."""

    vectors: Any  # (samples, fields, width)
    sums: Any  # over fields, of weights and of vectors: (samples, weights + width)
    squares: Any  # the sum over fields of their vectors' squared lengths, (samples, 1)


class FieldUse(NamedTuple):
    """A lookup of fields of which gradients come back."""

    ids: Array  # each once
    positions: Array  # among them, of each that was looked up
    num_weights: int
    parts: Parts

    def gradients(self) -> Array:
        """Return the gradients of the rows of `ids`; waits for the backward pass."""
        vectors = _memory(self.parts.vectors)
        return field_sums.gradients(
            self.positions, len(self.ids), self.num_weights, vectors, *map(_gradient, self.parts)
        )


def looked_up(rows: Array, positions: Array, shape: tuple[int, int], num_weights: int) -> Parts:
    """Return the parts of the rows at `positions`, (samples, fields) of them, in this process's memory."""
    samples, fields = shape
    width = rows.shape[1] - num_weights
    parts = Parts(*map(mx.nd.empty, ((samples, fields, width), (samples, rows.shape[1]), (samples, 1))))
    field_sums.take(rows, positions, *map(_memory, parts))
    return parts


def of_rows(F: Any, rows: Any, num_fields: int, num_weights: int, width: int) -> Parts:
    """Return the parts of rows, (samples, fields, weights + width), by MXNet's operators.

    Sums are products of matrices, since MXNet adds over an axis in the middle number by number.
    """
    of_all_fields = F.tile(F.eye(num_weights + width), reps=(1, num_fields))
    sums = F.FullyConnected(rows, of_all_fields, no_bias=True, num_hidden=num_weights + width)
    vectors = F.slice_axis(rows, axis=2, begin=num_weights, end=None)
    squares = F.dot(F.square(F.flatten(vectors)), F.ones(shape=(num_fields * width, 1)))
    return Parts(vectors, sums, squares)


def _memory(array: NDArray) -> Array:
    found: Array = memory(array).reshape(array.shape)
    return found


def _gradient(part: NDArray) -> Array:
    """Return the gradient of a part: zeros where no loss depends on it, as nothing has written it then."""
    return _memory(part.grad) if part._fresh_grad else np.zeros(part.shape, np.float32)
