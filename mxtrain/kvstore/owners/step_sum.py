"""The sum of one parameter's gradients over the workers of a step: exact, rounded once, whoever comes first.

Owns the arithmetic of a sum, piece by piece. On a grid (docs/adr/0020) the totals of all workers together are less than
2**53 of a block's units, so float64 has every digit of their sum. Float32 is enough for the first worker's part, and
where only one is to be added to it, since it rounds an exact sum once as well.
"""

from __future__ import annotations

import threading

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.optim.sums.grid import BLOCK, num_blocks, write_maxima
from mxtrain.optim.sums.squares import squares
from mxtrain.runtime.memory import memory
from mxtrain.runtime.types import NDArray

PIECE = BLOCK * 64  # numbers at a time, which a core's own cache holds also as float64


class StepSum:
    """The sum of `num_addends` gradients in `total`, a float32 array, step after step.

    Once it is complete `square` has the sum's product with itself, and `maxima` each block's largest absolute value.
    """

    def __init__(self, total: NDArray, num_addends: int):
        self.total, self._num_addends = total, num_addends
        self.numbers = memory(total)
        self.maxima: Array = np.empty(num_blocks(len(self.numbers)), np.float32)
        self.square: Array | None = None
        self._counting = threading.Lock()
        self._pieces = [
            _Piece(self.numbers[start : start + PIECE], self.maxima[start // BLOCK :][: PIECE // BLOCK])
            for start in range(0, len(self.numbers), PIECE)
        ]
        self.restart()

    def restart(self) -> None:
        """Begin another step's sum."""
        self.square, self._num_left = None, self._num_addends
        for piece in self._pieces:
            piece.restart(self._num_addends)

    def room(self, start: int, buffer: Array) -> Array:
        """Return where to put a worker's numbers from `start` on, a multiple of `PIECE`: there, or in `buffer`."""
        numbers = self._pieces[start // PIECE].numbers
        return numbers if self._num_addends == 1 else buffer[: len(numbers)]

    def add(self, start: int, values: Array, wide_blocks: Array, wide_totals: Array) -> None:
        """Add a worker's numbers from `start` on, as many as there was room for.

        Of its wide blocks, in order, those that lie there count with all their digits.
        """
        first, last = np.searchsorted(wide_blocks, [start // BLOCK, -(-(start + len(values)) // BLOCK)])
        if first < last and self._num_addends > 1:
            values = values.astype(np.float64)
            for place in range(first, last):
                total = wide_totals[place * BLOCK : (place + 1) * BLOCK]
                values[wide_blocks[place] * BLOCK - start :][: len(total)] = total
        self._pieces[start // PIECE].add(values)

    def finish_addend(self) -> bool:
        """Note that a worker has added all of its numbers; return whether the sum is complete with them."""
        with self._counting:
            if self._num_left == 1:
                self.square = squares([self.total])
            self._num_left -= 1
            return not self._num_left


class _Piece:
    """A piece of a sum: float32 where that is exact, or else float64 until the last addend is there."""

    def __init__(self, numbers: Array, maxima: Array):
        self.numbers, self._maxima = numbers, maxima
        self._exact: Array | None = None
        self._is_empty, self._num_left = True, 0
        self._adding = threading.Lock()

    def restart(self, num_addends: int) -> None:
        self._exact, self._is_empty, self._num_left = None, True, num_addends

    def add(self, values: Array) -> None:
        """Add numbers, float32 or float64; the last ones make the piece complete."""
        with self._adding, np.errstate(over="ignore", invalid="ignore"):
            self._num_left -= 1
            is_plain = values.dtype == np.float32 and self._exact is None
            if self._is_empty and is_plain:
                if values is not self.numbers:
                    self.numbers[:] = values
            elif is_plain and not self._num_left:
                self.numbers += values
            else:
                self._add_exactly(values)
            self._is_empty = False
            if not self._num_left:
                if self._exact is not None:
                    self.numbers[:] = self._exact
                    self._exact = None
                write_maxima(self.numbers, self._maxima)

    def _add_exactly(self, values: Array) -> None:
        if self._is_empty:
            self._exact = values.astype(np.float64)
            return
        if self._exact is None:
            self._exact = self.numbers.astype(np.float64)
        self._exact += values
