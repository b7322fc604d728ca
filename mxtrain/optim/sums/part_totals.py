"""Totals of some of a net's parameters on a grid that holds none: those of the segment that is computed.

They have the bits that the grid's own would have. Knows arrays of NumPy only.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from mxtrain import native
from mxtrain.data.fields import Array
from mxtrain.kvstore.owners.owner import GradientSum
from mxtrain.optim.sums import grid as grids
from mxtrain.optim.sums.grid import BLOCK, FLOAT32_DIGITS, Grid

NONE_WIDE = np.zeros(0, np.int64), np.zeros(0, np.float64)


class PartTotals:
    """The totals of a step's gradients of the parameters at these `places` among those of `grid`.

    `totals` are written to, whatever they hold.
    """

    def __init__(self, grid: Grid, places: Sequence[int], totals: Sequence[Array]):
        self.grid, self.places, self.totals = grid, places, totals
        self.is_empty = True

    def add(self, gradients: Sequence[Array], is_last: bool = False) -> None:
        """Add float32 gradients, and write the finished totals over the last ones, as `Grid.add` does."""
        is_first, self.is_empty = self.is_empty, False
        add: Any = native.add_on_grid or grids.add_rounded
        grid = self.grid
        for place, total, gradient in zip(self.places, self.totals, gradients):
            blocks = self._blocks(place)
            largest = grid.largest[blocks] if is_last else None
            add(total, gradient, grid.scaled[blocks], grid.reach, is_first, largest)
            if grid.exponents is None:
                total[:] = np.nan
                gradient[:] = np.nan

    def sum_of(self, number: int, values: Array, has_others: bool) -> GradientSum:
        """Return the finished total of one of these parameters, whose numbers `values` are its `add` has written.

        All digits of a block count only where there are `has_others`, whose totals are added to it.
        """
        blocks = self._blocks(self.places[number])
        limit = np.ldexp(1.0, self.grid.scaled[blocks] + FLOAT32_DIGITS)
        total = self.totals[number]
        if not has_others or total.dtype == np.float32 or self.grid.exponents is None:
            return GradientSum(values, *NONE_WIDE)
        wide = np.flatnonzero(self.grid.largest[blocks] >= limit)
        if not len(wide):
            return GradientSum(values, *NONE_WIDE)
        parts = [total[BLOCK * block : BLOCK * (block + 1)] for block in wide]
        return GradientSum(values, wide.astype(np.int64), np.concatenate(parts))

    def _blocks(self, place: int) -> slice:
        end = int(self.grid.ends[place])
        return slice(end - int(self.grid.counts[place]), end)
