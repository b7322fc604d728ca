"""A head of very many classes whose weights have owners: each chunk of classes is a parameter of theirs.

Owns the way of chunks from their owners and of gradients to them; the two passes are `models/heads/chunked_head.py`'s.
"""

from __future__ import annotations

import math
from typing import Callable, NamedTuple, Protocol, Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.kvstore.owners.owner import GradientSum, Pull
from mxtrain.models.heads import chunked_head, class_samples
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
        self._owners, self.chunks, self.margin = owners, chunks, margin

    def pull(self, chunk: int) -> Chunk:
        """Return the weights of a chunk."""
        arrays = [np.empty(each.shape, np.float32) for each in self.chunks[chunk]]
        indices = [each.number for each in self.chunks[chunk]]
        self._owners.pull(indices, [each.reshape(-1) for each in arrays]).wait()
        return Chunk(*arrays)

    def of_classes(self, classes: Sequence[Array]) -> SampledHead:
        """Return the head over some classes for each micro-batch, sorted, whose weights are pulled for it."""
        return SampledHead(self, classes)

    def row_totals(self, grid: Grid | None, num_addends: int) -> dict[int, RowTotals]:
        """Return new totals of the gradients of so many micro-batches, by the numbers of arrays that are trained."""
        return {
            array.number: RowTotals(grid.scaled[array.blocks], grid.reach, num_addends)
            for chunk in self.chunks
            for array in chunk
            if grid is not None and array.blocks is not None
        }

    def forward(self, micro_batches: Sequence[Samples]) -> list[Softmax]:
        """Return the softmax of each micro-batch over all classes."""
        return chunked_head.softmax(micro_batches, self.lengths, self.pull, self.margin)

    def largest(self, samples: Samples, forward: Softmax, maxima: Array) -> Array:
        """Return the gradient of a micro-batch's features.

        The largest number in each block of the chunks' gradients is written to `maxima`, of all blocks of a grid that
        learns exponents from them.
        """

        def push(chunk: int, gradient: Chunk) -> None:
            for array, values in zip(self.chunks[chunk], gradient):
                if array.blocks is not None and values is not None:
                    write_maxima(values.reshape(-1), maxima[array.blocks])

        (of_features,) = chunked_head.gradients(
            [samples], [forward], self.lengths, self.pull, push, self.margin
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
        totals = self.row_totals(grid, len(micro_batches))

        def add(chunk: int, rows: slice, number: int, addition: Chunk, total: Chunk) -> None:
            for array, values, into in zip(self.chunks[chunk], addition, total):
                assert values is not None and into is not None, (
                    "a chunk of weights and biases has both gradients"
                )
                if array.number not in totals:
                    into[:] = values
                    continue
                start = rows.start * math.prod(array.shape[1:])
                totals[array.number].add(start, number, values.reshape(-1), into.reshape(-1))

        def push(chunk: int, gradient: Chunk) -> None:
            for array, values in zip(self.chunks[chunk], gradient):
                if array.blocks is None or values is None:
                    continue
                push_sum(array.number, _with_digits(values.reshape(-1), totals.pop(array.number, None)))

        return chunked_head.gradients(micro_batches, forward, self.lengths, self.pull, push, self.margin, add)


class SampledHead:
    """The head over some classes for each micro-batch: it has the weights of all of them together, and no others."""

    def __init__(self, head: OwnedHead, classes: Sequence[Array]):
        self._head, self._classes = head, classes
        self._taken = np.unique(np.concatenate(classes))
        self._weights = class_samples.gathered(self._taken, head.lengths, head.pull)

    def forward(self, micro_batches: Sequence[Samples]) -> list[Softmax]:
        """Return the softmax of each micro-batch over its classes, of which labels are places."""
        found = []
        for number, each in enumerate(micro_batches):
            lengths, weights = [len(self._classes[number])], self._rows(number)
            found += chunked_head.softmax([each], lengths, lambda _, rows=weights: rows, self._head.margin)  # type: ignore[misc]
        return found

    def largest(self, samples: Samples, forward: Softmax, maxima: Array) -> Array:
        """Do what `OwnedHead.largest` does, with the first micro-batch."""
        of_features, gradient = self._gradients(0, samples, forward)
        for chunk, first in zip(self._head.chunks, chunked_head.firsts(self._head.lengths)):
            for array, values in zip(chunk, gradient):
                if array.blocks is not None and values is not None:
                    rows = class_samples.scattered(values, self._classes[0], first, array.shape[0])
                    write_maxima(rows.reshape(-1), maxima[array.blocks])
        return of_features

    def backward(
        self,
        micro_batches: Sequence[Samples],
        forward: Sequence[Softmax],
        grid: Grid | None,
        push_sum: PushSum,
    ) -> list[Array]:
        """Do what `OwnedHead.backward` does; the gradients of all micro-batches' classes are here at once."""
        computed = [self._gradients(number, *each) for number, each in enumerate(zip(micro_batches, forward))]
        totals = self._head.row_totals(grid, len(micro_batches))
        for chunk, first in zip(self._head.chunks, chunked_head.firsts(self._head.lengths)):
            for place, array in enumerate(chunk):
                if array.blocks is None:
                    continue
                of_array = totals.pop(array.number, None)
                values = self._sum(place, array, first, [gradient for _, gradient in computed], of_array)
                push_sum(array.number, _with_digits(values, of_array))
        return [of_features for of_features, _ in computed]

    def _sum(
        self,
        place: int,
        array: OwnedArray,
        first: int,
        gradients: Sequence[Chunk],
        totals: RowTotals | None,
    ) -> Array:
        """Return the sum of the gradients of an array, whose first class is `first`, flat."""
        total, row = np.empty(array.shape, np.float32), math.prod(array.shape[1:])
        for rows in chunked_head.blocks(array.shape[0]):
            for number, (classes, gradient) in enumerate(zip(self._classes, gradients)):
                values = gradient[place]
                assert values is not None, "a chunk of weights and biases has both gradients"
                block = class_samples.scattered(values, classes, first + rows.start, rows.stop - rows.start)
                if totals is None:
                    total[rows] = block
                else:
                    totals.add(rows.start * row, number, block.reshape(-1), total[rows].reshape(-1))
        return total.reshape(-1)

    def _gradients(self, number: int, samples: Samples, forward: Softmax) -> tuple[Array, Chunk]:
        """Return the gradients of a micro-batch's features, and of the weights of its classes."""
        found: list[Chunk] = []

        def push(_: int, gradient: Chunk) -> None:
            found.append(gradient)  # whose buffer is this pass's alone

        weights = self._rows(number)
        (of_features,) = chunked_head.gradients(
            [samples], [forward], [len(weights.weights)], lambda _: weights, push, self._head.margin
        )
        return of_features, found[0]

    def _rows(self, number: int) -> Chunk:
        places = np.searchsorted(self._taken, self._classes[number])
        weights, biases = self._weights
        return Chunk(weights[places], None if biases is None else biases[places])


def _with_digits(values: Array, totals: RowTotals | None) -> GradientSum:
    """Return a flat sum with all digits of its wide blocks, as these totals have them."""
    wide = NO_BLOCKS if totals is None else (totals.wide_blocks, totals.wide_totals)
    return GradientSum(values, *wide)
