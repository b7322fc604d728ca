"""The sum of one parameter's gradients over the workers of a step: exact, rounded once, whoever comes first."""

from __future__ import annotations

import threading

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.optim.sums.exact_gradients import memory
from mxtrain.optim.sums.grid import BLOCK
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray

PIECE = BLOCK * 64  # numbers at a time, which a core's own cache holds also as float64


class StepSum:
    """The sum of `num_addends` gradients of this shape.

    A float64 array holds it from the first worker's first number to the last one's last, then `total`, whose memory
    `numbers` are. A single worker's is there as it comes.
    """

    def __init__(self, shape: tuple[int, ...], num_addends: int):
        self.total: NDArray = mx.nd.zeros(shape)
        self.numbers, self._num_left = memory(self.total), num_addends
        self._exact = np.zeros(len(self.numbers)) if num_addends > 1 else None
        self._adding = threading.Lock()

    @property
    def is_complete(self) -> bool:
        """Whether all have added theirs; `total` holds the sum then."""
        return not self._num_left

    def add(self, start: int, values: Array, wide_blocks: Array, wide_totals: Array) -> None:
        """Add a worker's numbers from `start` on, a multiple of `PIECE`, up to as many.

        Of its wide blocks, in order, those that lie there count with all their digits.
        """
        part = slice(start, start + len(values))
        if self._exact is None:
            self.numbers[part] = values
            return
        numbers = values.astype(np.float64)
        first, last = np.searchsorted(wide_blocks, [start // BLOCK, -(-part.stop // BLOCK)])
        for place in range(first, last):
            total = wide_totals[place * BLOCK : (place + 1) * BLOCK]
            numbers[wide_blocks[place] * BLOCK - start :][: len(total)] = total
        with self._adding:
            self._exact[part] += numbers

    def finish_addend(self) -> None:
        """Note that a worker has added all of its numbers."""
        with self._adding:
            if self._num_left == 1 and self._exact is not None:
                with np.errstate(over="ignore", invalid="ignore"):
                    self.numbers[:] = self._exact
                self._exact = None
            self._num_left -= 1  # from here on others read the sum
