"""The squares of arrays, which norms are made of, and the largest numbers of their blocks, in one pass over memory.

A kernel of our own makes both for dense arrays on CPUs. Without it squares are MXNet's, and have other last bits.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple, Sequence

import numpy as np

from mxtrain import native
from mxtrain.data.fields import Array
from mxtrain.models.nets import sparse_rows
from mxtrain.optim.sums.grid import num_blocks
from mxtrain.runtime import mx, own_operators
from mxtrain.runtime.memory import address, is_in_memory
from mxtrain.runtime.types import NDArray


class Measured(NamedTuple):
    """The product of each array with itself, float32; of all their blocks the largest absolute values.

    There are no `maxima` where the kernel is not.
    """

    squares: Array
    maxima: Array | None


def measure(arrays: Sequence[NDArray]) -> Measured:
    """Return what arrays come to; not finite if any element is not, nor squares that are too large for float32."""
    if native.OPERATORS is None or not all(map(is_in_memory, arrays)):
        return Measured(_squares_by_mxnet(arrays), None)
    sizes = [each.size for each in arrays]
    found, maxima = (np.empty(count, np.float32) for count in (len(arrays), sum(map(num_blocks, sizes))))
    own_operators.library().mxtrain_squares(
        (ctypes.c_void_p * len(arrays))(*map(address, arrays)),
        (ctypes.c_size_t * len(arrays))(*sizes),
        ctypes.c_size_t(len(arrays)),
        ctypes.c_void_p(found.ctypes.data),
        ctypes.c_void_p(maxima.ctypes.data),
    )
    return Measured(found, maxima)


def squares(arrays: Sequence[NDArray]) -> Array:
    """Return the squares alone."""
    return measure(arrays).squares


def _squares_by_mxnet(arrays: Sequence[NDArray]) -> Array:
    """Return products of MXNet's.

    Its multi_sum_sq costs the same, but adds in float32 one by one: 100 million ones come to 2**24. multi_all_finite
    takes fifteen times as long on a CPU.
    """
    flat = [sparse_rows.stored_values(array) for array in arrays]
    found = np.zeros(len(flat), np.float32)
    products = [mx.nd.dot(array, array) for array in flat if array.size]
    if products:
        found[[array.size > 0 for array in flat]] = mx.nd.concat(*products, dim=0).asnumpy()
    return found
