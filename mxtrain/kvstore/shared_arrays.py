"""Arrays in memory that processes of a host share: a file without a name, which goes with the last process that has it.

Owns where arrays lie in such a file, each with the table of its blocks, and how arrays of several processes are added
where they lie. Who is given a file is `allreduce/host_sums.py`'s and `shared_servers.py`'s; what tables say is
`optim/sums/block_tables.py`'s.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
from typing import NamedTuple, Sequence

import numpy as np

from mxtrain import native
from mxtrain.data.fields import Array
from mxtrain.kvstore.allreduce.partition import chunks
from mxtrain.optim.sums.block_tables import NUM_WORKERS, TABLE
from mxtrain.runtime import mx, own_operators
from mxtrain.runtime.types import NDArray

BYTES_OF_FLOAT = 4
FLOATS_OF_BLOCK = TABLE.itemsize // BYTES_OF_FLOAT  # in a table
PAGE = 1024  # numbers: no two arrays have one in common
CHUNK = 1 << 16  # numbers that are still in a core's own cache when they are read again


class Shared(NamedTuple):
    """An array in a file, and the table of its blocks; it may have none."""

    numbers: Array
    table: Array


class Layout(NamedTuple):
    """The layout of arrays and their tables in a file: where each begins, and how many numbers or blocks it has."""

    starts: Sequence[int]
    sizes: Sequence[int]
    starts_of_tables: Sequence[int]
    nums_blocks: Sequence[int]
    room: int  # for so many numbers

    def of_arrays(self) -> Sequence[Sequence[int]]:
        """Return all of it that is of one array each."""
        return self.starts, self.sizes, self.starts_of_tables, self.nums_blocks

    def within(self, numbers: Array) -> list[Shared]:
        """Return the arrays that lie there, and their tables, given the numbers of the file."""
        return [
            Shared(numbers[start : start + size], table_at(numbers, start_of_table, num_blocks))
            for start, size, start_of_table, num_blocks in zip(*self.of_arrays())
        ]


def lay_out(sizes: Sequence[int], nums_blocks: Sequence[int] = ()) -> Layout:
    """Return the layout of arrays of these sizes, and of their tables of so many blocks, or none."""
    nums_blocks = nums_blocks or [0] * len(sizes)
    of_tables = [FLOATS_OF_BLOCK * num_blocks for num_blocks in nums_blocks]
    ends = list(itertools.accumulate(-(-size // PAGE) * PAGE for size in (*sizes, *of_tables)))
    starts = [0, *ends[:-1]]
    return Layout(starts[: len(sizes)], sizes, starts[len(sizes) :], nums_blocks, ends[-1])


def table_at(numbers: Array, start: int, num_blocks: int) -> Array:
    """Return the table of so many blocks that begins there among the numbers of a file."""
    found: Array = numbers[start : start + FLOATS_OF_BLOCK * num_blocks].view(TABLE)
    return found


def open_file(count: int) -> int:
    """Return the descriptor of a new file of so many float32 zeros."""
    descriptor = os.memfd_create("mxtrain-sums")
    os.ftruncate(descriptor, count * BYTES_OF_FLOAT)
    return descriptor


def map_file(descriptor: int, count: int) -> Array:
    """Return the numbers of a file, which is closed; it goes with the last array that lies in it."""
    try:
        return np.frombuffer(mmap.mmap(descriptor, count * BYTES_OF_FLOAT), np.float32)
    finally:
        os.close(descriptor)


def in_memory(numbers: Array) -> NDArray:
    """Return MXNet's array whose numbers are these."""
    return mx.nd.from_numpy(numbers[:], zero_copy=True)  # which makes that view of them read-only


def add_in_place(arrays: Sequence[Array]) -> None:
    """Replace each of the arrays by their sum."""
    for total, *others in zip(*(chunks(array, CHUNK) for array in arrays)):
        for other in others:
            np.add(total, other, out=total)
        for other in others:
            other[:] = total


def add_shared(arrays: Sequence[Shared], part: slice) -> None:
    """Replace a part of each of the arrays by their sum; where they are to be rounded, the blocks that begin there."""
    table = arrays[0].table
    if not len(table) or not table["reach"][0]:
        add_in_place([each.numbers[part] for each in arrays])
        return
    if native.OPERATORS is None or len(arrays) != NUM_WORKERS:
        raise ValueError(f"{len(arrays)} arrays to be rounded and added, for which there is no kernel here")
    first, end = np.searchsorted(table["start"], [part.start, part.stop]).tolist()
    own_operators.library().mxtrain_add_rounded(
        *(ctypes.c_void_p(each.numbers.ctypes.data) for each in arrays),
        *(ctypes.c_void_p(each.table[first:].ctypes.data) for each in arrays),
        ctypes.c_size_t(end - first),
    )
