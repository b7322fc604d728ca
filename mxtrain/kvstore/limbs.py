"""Exact sums over workers of numbers with more digits than float32 has: in three parts that servers add exactly.

Owns how wide blocks travel, those where any worker has such totals; there are few of them or none, and in a step that
grows a lot all. Which ones, all workers learn from the sum of their flags, if the sums of a step say that there are
any (docs/adr/0020).
"""

from __future__ import annotations

from typing import Sequence

import numpy as np

from mxtrain.core.limbs import cut
from mxtrain.data.fields import Array
from mxtrain.kvstore.store import wait_for
from mxtrain.optim.sums.grid import BLOCK, Grid, exact_bits, num_blocks
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray, SummingStore

NUM_PARTS = 3  # of 24 bits less those of the number of workers: enough for the 53 of a total and 64 workers
AT_A_TIME = 64  # blocks travel together, or fewer: a message of 786 KB
FLAGS, PARTS = "wide-blocks", "wide-blocks-parts"


class WideBlocks:
    """Sums of blocks of arrays of these `sizes`, through two keys: all blocks' flags, and some blocks' parts."""

    def __init__(self, kv: SummingStore, sizes: Sequence[int]):
        self._kv = kv
        self._flags = mx.nd.zeros((max(1, sum(map(num_blocks, sizes))),))
        self._parts = mx.nd.zeros((NUM_PARTS, AT_A_TIME, BLOCK))
        kv.init([FLAGS, PARTS], [self._flags, self._parts])

    def sum_again(self, is_wide: Array, grid: Grid, sums: Sequence[Array]) -> None:
        """Replace the blocks of `sums` that are wide on any worker by sums of all workers' totals, rounded once."""
        blocks = np.flatnonzero(self._sum(FLAGS, self._flags, is_wide))
        for start in range(0, len(blocks), AT_A_TIME):
            numbers = blocks[start : start + AT_A_TIME]
            totals = np.zeros((AT_A_TIME, BLOCK))
            for row, number in zip(totals, numbers):
                total = grid.block(grid.totals, number)
                row[: len(total)] = total
            units = np.ones((AT_A_TIME, 1))
            units[: len(numbers), 0] = np.ldexp(1.0, grid.scaled[numbers])
            for row, number in zip(self._sum_totals(totals, units), numbers):
                block = grid.block(sums, number)
                block[:] = row[: len(block)]

    def _sum_totals(self, totals: Array, units: Array) -> Array:
        num_bits = exact_bits(self._kv.num_workers)
        of_parts = [units * 2.0 ** (num_bits * number) for number in reversed(range(NUM_PARTS))]
        with np.errstate(invalid="ignore", over="ignore"):
            parts = np.stack(list(cut(totals, of_parts))).astype(np.float32)
            summed = self._sum(PARTS, self._parts, parts).astype(np.float64)
            return summed.sum(axis=0).astype(np.float32)

    def _sum(self, key: str, array: NDArray, values: Array) -> Array:
        array[:] = mx.nd.array(values, dtype="float32")
        self._kv.pushpull(key, array)
        wait_for(self._kv, key)
        return array.asnumpy()
