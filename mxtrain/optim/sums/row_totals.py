"""Exact totals of one parameter's gradients, some of its numbers at a time: of a head that is computed in chunks.

They have the bits of `Grid.add`, of which they take the exponents, and no room beyond the numbers that are added at a
time. Knows arrays of NumPy only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxtrain import native
from mxtrain.data.fields import Array
from mxtrain.optim.sums import grid
from mxtrain.optim.sums.grid import BLOCK, FLOAT32_DIGITS


class RowTotals:
    """The totals of a parameter whose blocks have these `exponents`, of `num_addends` gradients of this worker.

    `wide_blocks` and `wide_totals` are those with more digits than float32, of all numbers so far, which come in order.
    """

    def __init__(self, exponents: Array, reach: int, num_addends: int):
        self._exponents, self._reach, self._num_addends = exponents, reach, num_addends
        self._exact = np.zeros(0)
        self._wide: list[int] = []
        self._totals: list[Array] = []

    def add(self, start: int, number: int, values: Array, total: Array) -> None:
        """Add the gradient with this number, 0 first, of numbers from `start` on, a multiple of BLOCK.

        Both are flat, float32. After the last gradient `total` has the sum, each number rounded once.
        """
        count = len(values)
        if len(self._exact) < count:
            self._exact = np.empty(count)
        exact, blocks = self._exact[:count], slice(start // BLOCK, -(-(start + count) // BLOCK))
        is_last = number == self._num_addends - 1
        exponents = self._exponents[blocks]
        largest = np.zeros(len(exponents), np.float32) if is_last else None
        add: Any = native.add_on_grid or grid.add_rounded
        add(exact, values, exponents, self._reach, number == 0, largest)
        if largest is None:
            return
        total[:] = values  # over which the sum was written
        for block in np.flatnonzero(largest >= np.ldexp(1.0, exponents + FLOAT32_DIGITS)):
            self._wide.append(blocks.start + int(block))
            self._totals.append(exact[BLOCK * block : BLOCK * (block + 1)].copy())

    def clear(self) -> None:
        """Forget all, and take no memory."""
        self._exact, self._wide, self._totals = np.zeros(0), [], []

    @property
    def wide_blocks(self) -> Array:
        """The numbers of the wide blocks, int64."""
        return np.array(self._wide, np.int64)

    @property
    def wide_totals(self) -> Array:
        """Their totals, float64, end to end."""
        return np.concatenate([np.zeros(0), *self._totals])
