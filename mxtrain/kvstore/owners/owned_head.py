"""A head of very many classes whose weights have owners: each chunk of classes is a parameter of theirs.

Owns the way of chunks from their owners and of gradients to them; the two passes are `models/heads/chunked_head.py`'s.
All workers call the same methods, each with its own micro-batches, if it has any.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.kvstore.owners.owner import GradientSum, Owners
from mxtrain.models.heads import chunked_head
from mxtrain.models.heads.chunked_head import Chunk, Samples, Softmax
from mxtrain.models.heads.margins import Margin
from mxtrain.optim.sums.grid import BLOCK, NO_BLOCKS, num_blocks, write_maxima
from mxtrain.optim.sums.row_totals import RowTotals

assert (
    chunked_head.BLOCK % BLOCK == 0
)  # so a block of classes begins with a block of numbers, whatever the width is


class OwnedHead:
    """The head, whose chunks are the parameters `indices` of their `owners` and have so many classes each."""

    def __init__(
        self,
        owners: Owners,
        indices: Sequence[int],
        lengths: Sequence[int],
        width: int,
        margin: Margin | None = None,
    ):
        self.lengths, self.width = list(lengths), width
        self._owners, self._indices, self._margin = owners, list(indices), margin
        counts = [num_blocks(length * width) for length in lengths]
        ends = np.cumsum(counts)
        self._blocks = [slice(end - count, end) for count, end in zip(counts, ends)]

    @property
    def num_blocks(self) -> int:
        """The number of blocks of all chunks, each of which has an exponent."""
        return self._blocks[-1].stop

    def forward(self, micro_batches: Sequence[Samples]) -> list[Softmax]:
        """Return the softmax of each micro-batch over all classes."""
        if not micro_batches:
            return []
        return chunked_head.softmax(micro_batches, self.lengths, self._pull, self._margin)

    def largest(self, samples: Samples, forward: Softmax) -> Array:
        """Return the largest number in each block of a micro-batch's gradients, from which a grid learns exponents."""
        found = np.zeros(self.num_blocks, np.float32)

        def push(chunk: int, gradient: Chunk) -> None:
            write_maxima(gradient.weights.reshape(-1), found[self._blocks[chunk]])

        chunked_head.gradients([samples], [forward], self.lengths, self._pull, push, self._margin)
        return found

    def backward(
        self, micro_batches: Sequence[Samples], forward: Sequence[Softmax], exponents: Array, reach: int
    ) -> list[Array]:
        """Push the exact sums of all chunks' gradients, and return the gradients of each micro-batch's features.

        `exponents` and `reach` are the grid's (`optim/sums/grid.py`), of the blocks of all chunks in order.
        """
        if not micro_batches:
            for index, length in zip(self._indices, self.lengths):
                self._owners.push(index, GradientSum(np.zeros(length * self.width, np.float32), *NO_BLOCKS))
            return []
        totals = [RowTotals(exponents[blocks], reach, len(micro_batches)) for blocks in self._blocks]

        def add(chunk: int, rows: slice, number: int, addition: Chunk, total: Chunk) -> None:
            arrays = (each.weights.reshape(-1) for each in (addition, total))
            totals[chunk].add(rows.start * self.width, number, *arrays)

        def push(chunk: int, gradient: Chunk) -> None:
            of_chunk = totals[chunk]
            found = GradientSum(gradient.weights.reshape(-1), of_chunk.wide_blocks, of_chunk.wide_totals)
            self._owners.push(self._indices[chunk], found)
            of_chunk.clear()

        return chunked_head.gradients(
            micro_batches, forward, self.lengths, self._pull, push, self._margin, add
        )

    def _pull(self, chunk: int) -> Chunk:
        weights = np.empty((self.lengths[chunk], self.width), np.float32)
        self._owners.pull([self._indices[chunk]], [weights.reshape(-1)]).wait()
        return Chunk(weights)
