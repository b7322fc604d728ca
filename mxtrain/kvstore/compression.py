"""Gradients in three levels: a threshold, its negative, or nothing; what that leaves is added to the next ones.

Owns the codes -1, 0 and 1 of a bucket and how they travel, so that servers which only add float32 numbers add codes.
MXNet's own 2bit is not used: it compresses the way to the servers but not the way back, takes everything in a store
for a gradient, and where a gradient is not finite it sends nothing at all for that weight, for ever after.

A float32 holds whole numbers up to 2^24 and adds them exactly. The sum of n workers' codes is one of 2n + 1 numbers, so
a float32 has room for as many sums as it has digits in base 2n + 1: 10 with 2 workers, 6 with 4, 4 with 8 to 31.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mxtrain.runtime import mx

EXACT = 2**24
# Beside it a small number has no room for its fraction: added and taken away it rounds in a tenth of the time of
# MXNet's own rounding, a half to zero.
ROUND = 1.5 * 2**23


class ThreeLevels:
    """The codes of a bucket. Nothing here waits, as in `buckets.py`."""

    def __init__(self, flat: Any, num_workers: int, threshold: float):
        self.base, self.half = 2 * num_workers + 1, digits_of_half(num_workers)
        self.threshold, context = threshold, flat.context
        num_packed = math.ceil(flat.size / (2 * self.half))
        self.packed = mx.nd.zeros((num_packed,), ctx=context)
        # Some elements more than the bucket, always zero, so that every packed number is full.
        self.codes = mx.nd.zeros((num_packed, 2 * self.half), ctx=context)
        self.flat, self.codes_of_flat = flat, self.codes.reshape(-1)[: flat.size]
        self.residual, self.residual_before = flat.zeros_like(), flat.zeros_like()
        self.places = mx.nd.array(self.base ** np.arange(2 * self.half).reshape(-1, 1), ctx=context)
        self.meanings = mx.nd.array(digits(self.base, self.half) * threshold, ctx=context)

    def pack(self) -> None:
        """Leave in `packed` the codes of the bucket's gradients, and keep what they do not say."""
        self.residual, self.residual_before = self.residual_before, self.residual
        mx.nd.elemwise_add(self.flat, self.residual_before, out=self.residual)
        codes = mx.nd._internal._mul_scalar(
            self.residual, scalar=0.5 / self.threshold, out=self.codes_of_flat
        )
        mx.nd.clip(codes, -1, 1, out=codes)
        codes += ROUND
        codes -= ROUND
        mx.nd.dot(self.codes, self.places, out=self.packed.reshape((-1, 1)))
        self.packed[:1] += nothing_or_nan(self.residual)  # codes would hide an infinity
        codes *= self.threshold
        self.residual -= codes

    def unpack(self) -> None:
        """Leave in the bucket what `packed` stands for: not all finite where any worker's gradients were not."""
        high = mx.nd.round(self.packed / self.base**self.half)
        low = self.packed - high * self.base**self.half
        rows = mx.nd.stack(low, high, axis=1) + (self.base**self.half - 1) // 2
        mx.nd.take(self.meanings, rows, out=self.codes.reshape((-1, 2, self.half)))
        self.codes_of_flat.copyto(self.flat)
        self.flat[:1] += nothing_or_nan(self.packed)

    def undo(self) -> None:
        """Keep what was kept before the last gradients."""
        self.residual, self.residual_before = self.residual_before, self.residual

    def forget(self) -> None:
        """Keep nothing."""
        self.residual[:] = 0


def digits_of_half(num_workers: int) -> int:
    """A packed number is read in two halves, which rounds right while both together stay within EXACT."""
    half = 1
    while (2 * num_workers + 1) ** (2 * half + 2) <= EXACT:
        half += 1
    return half


def digits(base: int, num_digits: int) -> Any:
    """The digits, from -(base // 2) to base // 2 and the lowest first, of all numbers of so many."""
    numbers = np.arange(base**num_digits)[:, None]
    return numbers // base ** np.arange(num_digits) % base - base // 2


def nothing_or_nan(array: Any) -> Any:
    """Zero where all of `array` is finite; it costs a tenth of looking at each element."""
    return mx.nd.dot(array, array) * 0
