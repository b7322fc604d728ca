"""Tables of arrays' blocks, by which whoever adds two workers' gradients rounds them to their grid.

A table lies beside its array in memory that workers share. It tells who adds what to round to, and the workers what the
sum comes to: else each would go through all its gradients once more before they are added, and once more after it
(docs/adr/0071). Knows arrays of NumPy only; who adds, and where, is `kvstore/shared_arrays.py`'s.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.optim.sums.grid import BLOCK, Grid
from mxtrain.optim.sums.squares import Measured

NUM_WORKERS = 2  # whose sums float32 rounds once
# Of a block; see native/operators/weights/rounded_sums.h. Without a reach an array is added as it is.
TABLE = np.dtype(
    [
        ("square", np.float64),
        ("largest", np.float32),
        ("exponent", np.int32),
        ("start", np.int32),
        ("length", np.int16),
        ("reach", np.int16),
    ]
)


class Blocks(NamedTuple):
    """The blocks of an array, end to end: their numbers among those of a grid, and their lengths."""

    numbers: Array
    lengths: Array


def blocks_of(pieces: Sequence[tuple[int, int]]) -> Blocks:
    """Return the blocks of an array of pieces end to end, each given by its first block's number and its size."""
    numbers, lengths = [], []
    for first, size in pieces:
        starts = np.arange(0, size, BLOCK)
        numbers.append(first + starts // BLOCK)
        lengths.append(np.minimum(starts + BLOCK, size) - starts)
    return Blocks(np.concatenate(numbers), np.concatenate(lengths))


def fill(table: Array, lengths: Array) -> None:
    """Have a table be that of an array whose blocks have these lengths, and which is not rounded so far."""
    table["length"], table["start"] = lengths, np.cumsum(lengths) - lengths


def is_whole(table: Array, size: int) -> bool:
    """Return whether a table has each number of an array of this size in one block."""
    lengths = table["length"].astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    return bool(lengths.sum() == size and (lengths > 0).all() and (table["start"] == starts).all())


class Rounding(NamedTuple):
    """The rounding of a step's gradients to a grid by who adds them.

    `tables` are those of the arrays in which this worker's lie, and `numbers` which blocks of the grid are in each.
    """

    grid: Grid
    tables: Sequence[Array]
    numbers: Sequence[Array]

    def start(self) -> None:
        """Have the next sums be of rounded gradients; those before are there."""
        for table, numbers in zip(self.tables, self.numbers):
            table["exponent"] = self.grid.scaled[numbers]
            table["reach"] = self.grid.reach

    def measured(self) -> Measured:
        """Return what the sums have come to, which are there: the bits that `squares.measure` finds in them."""
        of_blocks, maxima = np.empty(self.grid.ends[-1]), np.empty(self.grid.ends[-1], np.float32)
        for table, numbers in zip(self.tables, self.numbers):
            of_blocks[numbers], maxima[numbers] = table["square"], table["largest"]
        with np.errstate(over="ignore", invalid="ignore"):
            added = [np.add.accumulate(each)[-1] for each in np.split(of_blocks, self.grid.ends[:-1])]
            return Measured(np.array(added).astype(np.float32), maxima)
