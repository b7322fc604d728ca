"""Gradient compression to three levels with error feedback: a threshold, its negative, or zero.

Owns the codes -1, 0 and 1 of a bucket, the residual that they leave, which is added to the next gradients, and a packed
form that servers can sum though they only add float32 numbers. MXNet's own 2bit compression is not used: it compresses
the way to the servers but not back, takes everything in a store for a gradient, and once a weight's gradient has not
been finite it never sends anything for that weight again.

A float32 holds whole numbers up to 2^24 and adds them exactly. The sum of n workers' codes is one of 2n + 1 numbers, so
a float32 holds as many sums as it has digits in base 2n + 1: 10 with 2 workers, 6 with 4, 4 with 8 to 31.
"""

from __future__ import annotations

import math

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray

EXACT = 2**24  # up to here a float32 holds every whole number
# Adding this to a small float32 and subtracting it again rounds to a whole number (a half to the even one), as no bits
# are left for a fraction; it takes a tenth of the time of MXNet's own rounding.
ROUNDING = 1.5 * 2**23


class TernaryCompressor:
    """The codes and the residual of the bucket `flat`. Nothing here waits, as in `buckets.py`."""

    def __init__(self, flat: NDArray, num_workers: int, threshold: float):
        self.base, self.half = 2 * num_workers + 1, digits_of_half(num_workers)
        self.threshold, context = threshold, flat.context
        num_packed = math.ceil(flat.size / (2 * self.half))
        self.packed = mx.nd.zeros((num_packed,), ctx=context)
        # A few elements more than the bucket, always zero, so that every packed number is full.
        self.codes = mx.nd.zeros((num_packed, 2 * self.half), ctx=context)
        self.flat, self.codes_of_flat = flat, self.codes.reshape(-1)[: flat.size]
        self.residual, self.residual_before = flat.zeros_like(), flat.zeros_like()
        self.place_values = mx.nd.array(self.base ** np.arange(2 * self.half).reshape(-1, 1), ctx=context)
        self.levels = mx.nd.array(digits(self.base, self.half) * threshold, ctx=context)

    def compress(self) -> None:
        """Write the codes of the bucket's gradients to `packed`, and what they leave to the residual."""
        self.residual, self.residual_before = self.residual_before, self.residual
        mx.nd.elemwise_add(self.flat, self.residual_before, out=self.residual)
        codes = mx.nd._internal._mul_scalar(
            self.residual, scalar=0.5 / self.threshold, out=self.codes_of_flat
        )
        mx.nd.clip(codes, -1, 1, out=codes)
        codes += ROUNDING
        codes -= ROUNDING
        mx.nd.dot(self.codes, self.place_values, out=self.packed.reshape((-1, 1)))
        self.packed[:1] += zero_or_nan(self.residual)  # codes would hide an infinity
        codes *= self.threshold
        self.residual -= codes

    def decompress(self) -> None:
        """Write the values of `packed` to the bucket; one is not finite if any worker's gradients were not."""
        high = mx.nd.round(self.packed / self.base**self.half)
        low = self.packed - high * self.base**self.half
        rows = mx.nd.stack(low, high, axis=1) + (self.base**self.half - 1) // 2
        mx.nd.take(self.levels, rows, out=self.codes.reshape((-1, 2, self.half)))
        self.codes_of_flat.copyto(self.flat)
        self.flat[:1] += zero_or_nan(self.packed)

    def restore_residual(self) -> None:
        """Restore the residual from before the last `compress`."""
        self.residual, self.residual_before = self.residual_before, self.residual

    def drop_residual(self) -> None:
        """Set the residual to zero."""
        self.residual[:] = 0


def digits_of_half(num_workers: int) -> int:
    """Return how many codes half a packed number holds: as many as two halves can have within EXACT.

    Read in two halves, a packed number is rounded right.
    """
    half = 1
    while (2 * num_workers + 1) ** (2 * half + 2) <= EXACT:
        half += 1
    return half


def digits(base: int, num_digits: int) -> Array:
    """Return a row of digits, from -(base // 2) to base // 2, lowest first, for each number of `num_digits` digits."""
    numbers = np.arange(base**num_digits)[:, None]
    return numbers // base ** np.arange(num_digits) % base - base // 2


def zero_or_nan(array: NDArray) -> NDArray:
    """Return 0 if all of `array` is finite, else NaN; takes a tenth of the time of testing each element."""
    return mx.nd.dot(array, array) * 0
