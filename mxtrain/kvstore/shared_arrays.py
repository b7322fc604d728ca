"""Arrays in memory that processes of a host share: a file without a name, which goes with the last process that has it.

Owns where arrays lie in such a file, and how arrays of several processes are added where they lie. Who is given a file
is `allreduce/host_sums.py`'s and `shared_servers.py`'s.
"""

from __future__ import annotations

import itertools
import mmap
import os
from typing import Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.kvstore.allreduce.partition import chunks
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray

BYTES_OF_FLOAT = 4
PAGE = 1024  # numbers: no two arrays have one in common
CHUNK = 1 << 16  # numbers that are still in a core's own cache when they are read again


def lay_out(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Return where arrays of these sizes begin, and how many numbers there is room for in all."""
    ends = list(itertools.accumulate(-(-size // PAGE) * PAGE for size in sizes))
    return [0, *ends[:-1]], ends[-1]


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
