"""The floating-point operations a second that this process reaches at best: a large product of matrices.

Owns the measurement, which touches no array of a net and no random number.
"""

from __future__ import annotations

import time

import numpy as np

from mxtrain.runtime import mx
from mxtrain.runtime.types import Device, NDArray

FIRST_WIDTH, LARGEST_WIDTH = 512, 4096  # of 200 MB together
ROUND_SECONDS = 0.01  # a shorter round says more of what a call costs
ROUNDS = 5
TYPES = {
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype([("bfloat16", np.uint16)]),
}  # as MXNet calls it


def measure(context: Device, dtype: str, most_seconds: float) -> float:
    """Return the operations a second of the fastest of some products, of the first width that takes long enough.

    A bit more than `most_seconds` at most.
    """
    end, width, best = time.monotonic() + most_seconds, FIRST_WIDTH, 0.0
    while True:
        left, right = (mx.nd.ones((width, width), ctx=context).astype(TYPES[dtype]) for _ in range(2))
        shortest = min(_seconds(left, right) for _ in range(2))  # the first one also prepares
        for _ in range(ROUNDS if shortest >= ROUND_SECONDS else 0):
            if time.monotonic() < end:
                shortest = min(shortest, _seconds(left, right))
        best = max(best, 2 * width**3 / shortest)
        # The next width takes eight times as long.
        if shortest >= ROUND_SECONDS or width == LARGEST_WIDTH or time.monotonic() + 16 * shortest > end:
            return best
        width *= 2


def _seconds(left: NDArray, right: NDArray) -> float:
    left.wait_to_read()
    started = time.perf_counter()
    mx.nd.FullyConnected(left, right, no_bias=True, num_hidden=len(right)).wait_to_read()
    return time.perf_counter() - started
