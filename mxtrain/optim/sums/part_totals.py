"""Totals of some of a net's parameters on a grid that holds none: those of the segment that is computed.

They have the bits that the grid's own would have. Knows arrays of NumPy only.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from mxtrain import native
from mxtrain.data.fields import Array
from mxtrain.optim.sums import grid as grids
from mxtrain.optim.sums.grid import BLOCK, FLOAT32_DIGITS, NO_BLOCKS, Grid


class PartTotals:
    """The totals of a step's gradients of some parameters, by their `positions` among those of `grid`.

    `totals` are written to, whatever they hold.
    """

    def __init__(self, grid: Grid, positions: Sequence[int], totals: Sequence[Array]):
        self.grid, self.totals = grid, totals
        self._blocks = [grid.blocks_of(each) for each in positions]
        self.is_empty = True

    def add(self, gradients: Sequence[Array], is_last: bool = False) -> None:
        """Add float32 gradients, and write the finished totals over the last ones, as `Grid.add` does."""
        is_first, self.is_empty = self.is_empty, False
        add: Any = native.add_on_grid or grids.add_rounded
        grid = self.grid
        for blocks, total, gradient in zip(self._blocks, self.totals, gradients):
            largest = grid.largest[blocks] if is_last else None
            add(total, gradient, grid.scaled[blocks], grid.reach, is_first, largest)
            if grid.exponents is None:
                total[:] = np.nan
                gradient[:] = np.nan

    def wide_totals(self, number: int) -> tuple[Array, Array]:
        """Return which blocks of a finished total have more digits than float32, and their numbers, end to end."""
        total, blocks = self.totals[number], self._blocks[number]
        if total.dtype == np.float32 or self.grid.exponents is None:
            return NO_BLOCKS
        is_wide = self.grid.largest[blocks] >= np.ldexp(1.0, self.grid.scaled[blocks] + FLOAT32_DIGITS)
        numbers = np.flatnonzero(is_wide)
        if not len(numbers):
            return NO_BLOCKS
        return numbers, np.concatenate([total[BLOCK * each : BLOCK * (each + 1)] for each in numbers])
