"""Mean and deviation of features, to the same bits whatever the order of the samples.

Sums are exact: of whole numbers of the smallest unit that float64 has. So neither the order of the samples nor how they
are cut into chunks shows.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Iterable, NamedTuple

import numpy as np
import numpy.typing as npt

from mxtrain.data.fields import Array

Doubles = npt.NDArray[np.float64]

LARGEST = 3.4028234e38  # what float32 holds; the square of it is far from float64's end
_SMALLEST_UNIT = (
    1126  # float64's numbers are multiples of 2**-1074; their digits are taken 52 below their exponent
)
_MOST_ROWS = 1 << 20  # at a time, so that sums of digits stay exact
_ROWS_AT_ONCE = 4096  # as float64


class Statistics(NamedTuple):
    """The mean of each feature, and the root of the mean of squared differences from it: 0 where it is constant."""

    mean: Doubles
    deviation: Doubles

    def standardised(self, values: Any) -> Doubles:
        """Return values with a mean of 0 and a deviation of 1; constant features have no deviation to divide by."""
        found: Doubles = (np.asarray(values, np.float64) - self.mean) / self.divisors()
        return found

    def restored(self, values: Any) -> Doubles:
        """Return values in their own units: the inverse of `standardised`."""
        found: Doubles = np.asarray(values, np.float64) * self.divisors() + self.mean
        return found

    def divisors(self) -> Doubles:
        """Return what differences from the mean are divided by."""
        return np.where(self.deviation > 0, self.deviation, 1.0)


def of_chunks(chunks: Callable[[], Iterable[Any]], num_features: int) -> Statistics:
    """Return the statistics of all rows of the chunks, (rows, features) each, which are gone through twice.

    All numbers have to be finite, and at most LARGEST.
    """
    count = 0
    sums = _ExactSums(num_features)
    for chunk in chunks():
        count += len(chunk)
        sums.add(np.asarray(chunk, np.float64))
    if not count:
        return Statistics(np.zeros(num_features), np.zeros(num_features))
    mean = sums.divided_by(count)
    squares = _ExactSums(num_features)
    for chunk in chunks():
        squares.add((np.asarray(chunk, np.float64) - mean) ** 2)
    return Statistics(mean, np.sqrt(squares.divided_by(count)))


class _ExactSums:
    """The sum of each column, in whole numbers of 2**-_SMALLEST_UNIT."""

    def __init__(self, num_columns: int):
        self._totals = [0] * num_columns

    def add(self, values: Doubles) -> None:
        for start in range(0, len(values), _MOST_ROWS):
            self._add(values[start : start + _MOST_ROWS])

    def divided_by(self, count: int) -> Doubles:
        """Return the sums divided by `count`, each rounded once."""
        unit = count << _SMALLEST_UNIT
        return np.array([total / unit for total in self._totals])

    def _add(self, values: Doubles) -> None:
        """Add the digits of all numbers with the same exponent, in two halves that float64 adds exactly."""
        num_columns = len(self._totals)
        fractions, exponents = np.frexp(values)
        digits = np.ldexp(fractions, 53).astype(np.int64)
        least = int(exponents.min(initial=0))
        places = ((exponents - least) * num_columns + np.arange(num_columns)).ravel()
        high = np.bincount(places, (digits >> 27).ravel().astype(np.float64))
        low = np.bincount(places, (digits & (1 << 27) - 1).ravel().astype(np.float64))
        for place in np.flatnonzero((high != 0) | (low != 0)).tolist():
            exponent, column = divmod(place, num_columns)
            total = (int(high[place]) << 27) + int(low[place])
            self._totals[column] += total << (exponent + least - 53 + _SMALLEST_UNIT)


NOT_FINITE = "holds a number that is not finite (NaN or infinity)"


def refused(values: Any) -> str | None:
    """Return what is wrong with numbers that no statistics can be made of; None if nothing is."""
    array = np.asarray(values)
    if array.dtype.kind in "biu":
        return None
    if not np.isfinite(array).all():
        return NOT_FINITE
    if array.size and math.fabs(float(np.abs(array).max())) > LARGEST:
        return f"holds a number above {LARGEST:g}"
    return None


def rows_refused(values: Array) -> npt.NDArray[np.bool_]:
    """Return which rows `refused` has something against; of millions, to ask it about each takes a minute."""
    is_refused = np.zeros(len(values), bool)
    inner = tuple(range(1, values.ndim))
    for start in range(0, len(values), _ROWS_AT_ONCE):
        chunk = np.abs(values[start : start + _ROWS_AT_ONCE].astype(np.float64))
        is_refused[start : start + _ROWS_AT_ONCE] = ~(chunk <= LARGEST).all(axis=inner)
    return is_refused
