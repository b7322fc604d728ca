"""Exact sums of float64 numbers, as whole numbers of one unit: the same whatever is added first, or where."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

MANTISSA_BITS, HALF = 53, 26
NUM_EXPONENTS, BIAS = 1 << 11, 1023 + 52  # as they stand in the bits of a float64; 0 has the unit of 1
LOWEST = -1074 - MANTISSA_BITS  # the exponent of the unit, which every float64 is a multiple of


def of(values: Any) -> int:
    """Return the sum of finite float64 `values` in units of 2**LOWEST; ValueError where one is not finite."""
    if not np.isfinite(values).all():
        raise ValueError("a number that is not finite has no exact sum")
    mantissas, exponents = np.frexp(np.asarray(values, np.float64))
    whole = np.ldexp(mantissas, MANTISSA_BITS).astype(np.int64)
    total = 0
    for exponent in np.unique(exponents[whole != 0]).tolist():
        of_exponent = whole[exponents == exponent]
        # In halves: as a whole int64 would have room for 1,024 of them only.
        high, low = of_exponent >> HALF, of_exponent & ((1 << HALF) - 1)
        total += ((int(high.sum()) << HALF) + int(low.sum())) << (exponent - MANTISSA_BITS - LOWEST)
    return total


def of_sums(sums: Any) -> int:
    """Return what sums of mantissas by exponent, int64 (NUM_EXPONENTS, 2), come to: upper bits, and the lower 26."""
    total = 0
    for exponent in np.flatnonzero(sums.any(axis=1)).tolist():
        high, low = sums[exponent].tolist()
        total += ((high << HALF) + low) << (max(exponent, 1) - BIAS - LOWEST)
    return total


def to_float(total: int) -> float:
    """Return the float64 nearest to a sum, infinity where none is near."""
    try:
        return total / (1 << -LOWEST)
    except OverflowError:
        return math.inf if total > 0 else -math.inf
