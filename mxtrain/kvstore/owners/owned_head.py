"""A head of very many classes whose weights have owners: each chunk of classes is a parameter of theirs.

Owns the way of chunks from their owners and of gradients to them; the two passes are `models/heads/chunked_head.py`'s.
"""

from __future__ import annotations

import math
from typing import Callable, NamedTuple, Protocol, Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.kvstore.owners.owner import GradientSum, Pull
from mxtrain.models.heads import chunked_head
from mxtrain.models.heads.chunked_head import Chunk, Samples, Softmax
from mxtrain.models.heads.margins import Margin
from mxtrain.optim.sums.grid import BLOCK, NO_BLOCKS, Grid, write_maxima
from mxtrain.optim.sums.row_totals import RowTotals

assert (
    chunked_head.BLOCK % BLOCK == 0
)  # so a block of classes begins with a block of numbers, whatever the width is

PushSum = Callable[
    [int, GradientSum], None
]  # of a parameter by the owners' number; returns once it has been sent


class Lender(Protocol):
    """The lender of weights: their owners."""

    def pull(self, indices: Sequence[int], into: Sequence[Array]) -> Pull:
        """Start to copy weights into these arrays."""
        ...


class OwnedArray(NamedTuple):
    """The weights of a chunk, or its biases: a parameter of their owners."""

    number: int  # the owners'
    shape: tuple[int, ...]
    blocks: slice | None  # of the grid's that are its gradient's; None of one that is not trained


class OwnedHead:
    """The head, whose chunks have these arrays: weights, and biases if it has some."""

    def __init__(self, owners: Lender, chunks: Sequence[Sequence[OwnedArray]], margin: Margin | None = None):
        self.lengths = [weights.shape[0] for weights, *_ in chunks]
        self._owners, self._chunks, self._margin = owners, chunks, margin

    def pull(self, chunk: int) -> Chunk:
        """Return the weights of a chunk."""
        arrays = [np.empty(each.shape, np.float32) for each in self._chunks[chunk]]
        indices = [each.number for each in self._chunks[chunk]]
        self._owners.pull(indices, [each.reshape(-1) for each in arrays]).wait()
        return Chunk(*arrays)

    def forward(self, micro_batches: Sequence[Samples]) -> list[Softmax]:
        """Return the softmax of each micro-batch over all classes."""
        return chunked_head.softmax(micro_batches, self.lengths, self.pull, self._margin)

    def largest(self, samples: Samples, forward: Softmax, maxima: Array) -> Array:
        """Return the gradient of a micro-batch's features.

        The largest number in each block of the chunks' gradients is written to `maxima`, of all blocks of a grid that
        learns exponents from them.
        """

        def push(chunk: int, gradient: Chunk) -> None:
            for array, values in zip(self._chunks[chunk], gradient):
                if array.blocks is not None and values is not None:
                    write_maxima(values.reshape(-1), maxima[array.blocks])

        (of_features,) = chunked_head.gradients(
            [samples], [forward], self.lengths, self.pull, push, self._margin
        )
        return of_features

    def backward(
        self,
        micro_batches: Sequence[Samples],
        forward: Sequence[Softmax],
        grid: Grid | None,
        push_sum: PushSum,
    ) -> list[Array]:
        """Push the sums of all chunks' gradients, and return the gradients of each micro-batch's features.

        Sums are exact ones on a `grid`; without one there is a single micro-batch.
        """
        totals = {
            array.number: RowTotals(grid.scaled[array.blocks], grid.reach, len(micro_batches))
            for chunk in self._chunks
            for array in chunk
            if grid is not None and array.blocks is not None
        }

        def add(chunk: int, rows: slice, number: int, addition: Chunk, total: Chunk) -> None:
            for array, values, into in zip(self._chunks[chunk], addition, total):
                assert values is not None and into is not None, (
                    "a chunk of weights and biases has both gradients"
                )
                if array.number not in totals:
                    into[:] = values
                    continue
                start = rows.start * math.prod(array.shape[1:])
                totals[array.number].add(start, number, values.reshape(-1), into.reshape(-1))

        def push(chunk: int, gradient: Chunk) -> None:
            for array, values in zip(self._chunks[chunk], gradient):
                if array.blocks is None or values is None:
                    continue
                of_array = totals.pop(array.number, None)
                wide = NO_BLOCKS if of_array is None else (of_array.wide_blocks, of_array.wide_totals)
                push_sum(array.number, GradientSum(values.reshape(-1), *wide))

        return chunked_head.gradients(
            micro_batches, forward, self.lengths, self.pull, push, self._margin, add
        )
