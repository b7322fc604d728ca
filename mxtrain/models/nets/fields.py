"""Samples' fields as heads take them: the vector of each, the sum of their rows, and that of their vectors' squares.

A row has weights and then a vector. All three are made where rows are looked up, in one pass that has each row at hand,
and so are the gradients of rows from theirs: as operators of a graph they are a dozen passes over arrays that no cache
holds. `of_rows` is such a graph, for exported nets and for rows that lie elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.runtime import mx
from mxtrain.runtime.memory import memory
from mxtrain.runtime.types import NDArray
from mxtrain.tables import sums


class Fields(NamedTuple):
    """The fields of some samples: arrays, or symbols of them."""

    vectors: Any  # (samples, fields, width)
    sums: Any  # over fields, of weights and of vectors: (samples, weights + width)
    squares: Any  # the sum over fields of their vectors' squared lengths, (samples, 1)


class FieldUse(NamedTuple):
    """A lookup of fields of which gradients come back."""

    ids: Array  # each once
    positions: Array  # among them, of each that was looked up
    num_weights: int
    fields: Fields

    def gradients(self) -> Array:
        """Return the gradients of the rows of `ids`; waits for the backward pass."""
        vectors = _memory(self.fields.vectors)
        return sums.field_gradients(
            self.positions, len(self.ids), self.num_weights, vectors, *map(_gradient, self.fields)
        )


def looked_up(rows: Array, positions: Array, shape: tuple[int, ...], num_weights: int) -> Fields:
    """Return the fields of samples, whose rows are at `positions`, in this process's memory."""
    samples, length = shape[0], rows.shape[1]
    fields = Fields(*map(mx.nd.empty, ((*shape, length - num_weights), (samples, length), (samples, 1))))
    sums.take_fields(rows, positions, *map(_memory, fields))
    return fields


def of_rows(F: Any, rows: Any, num_fields: int, num_weights: int, width: int) -> Fields:
    """Return the fields of rows, (samples, fields, weights + width), by MXNet's operators.

    Sums are products of matrices, since MXNet adds over an axis in the middle number by number.
    """
    of_all_fields = F.tile(F.eye(num_weights + width), reps=(1, num_fields))
    of_weights_and_vectors = F.FullyConnected(
        rows, of_all_fields, no_bias=True, num_hidden=num_weights + width
    )
    vectors = F.slice_axis(rows, axis=2, begin=num_weights, end=None)
    squares = F.dot(F.square(F.flatten(vectors)), F.ones(shape=(num_fields * width, 1)))
    return Fields(vectors, of_weights_and_vectors, squares)


def _memory(array: NDArray) -> Array:
    found: Array = memory(array).reshape(array.shape)
    return found


def _gradient(array: NDArray) -> Array:
    """Return the gradient of an array: zeros where no loss depends on it, as nothing has written it then."""
    return _memory(array.grad) if array._fresh_grad else np.zeros(array.shape, np.float32)
