"""Rates and their spread, from the moments at which parts of a measurement ended. Pure.

A difference that lies within the spreads of both sides is chance, and nothing is advised for it; nor for a rate that
is noise itself.
"""

from __future__ import annotations

import statistics
from typing import NamedTuple, Sequence

MOST_WINDOWS = 8
NOISE = 0.5  # a spread, of the median: rates that move by as much tell of what else a machine does


class Rate(NamedTuple):
    """Amounts a second: the median of several windows, and the range of their middle half."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the median and the spread, as in `310 +-4%`."""
        return f"{rounded(self.median)} ±{100 * self.spread:.0f}%{' (noise)' if self.is_noise else ''}"

    @property
    def spread(self) -> float:
        return (self.high - self.low) / 2 / self.median if self.median else 0.0

    @property
    def is_noise(self) -> bool:
        return self.spread > NOISE

    def times(self, factor: float) -> Rate:
        return Rate(*(factor * value for value in self))


def rounded(value: float) -> str:
    """Return a number with three digits that count, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def is_faster(one: Rate, other: Rate) -> bool:
    """Return whether `one` is faster beyond chance."""
    return one.low > other.high and not (one.is_noise or other.is_noise)


def of_events(times: Sequence[float], amounts: Sequence[float]) -> Rate:
    """Return the rate of events at rising `times`, each the end of `amounts`; the first one starts the clock."""
    last = len(times) - 1
    if last < 1:
        raise ValueError("a rate needs two events")
    num_windows = min(MOST_WINDOWS, last)
    edges = sorted({round(number * last / num_windows) for number in range(num_windows + 1)})
    found = [
        sum(amounts[start + 1 : stop + 1]) / max(times[stop] - times[start], 1e-9)
        for start, stop in zip(edges, edges[1:])
    ]
    return of_windows(found)


def of_windows(values: Sequence[float]) -> Rate:
    """Return the rate of several windows, measured one after another or in turns."""
    if len(values) == 1:
        return Rate(values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Rate(median, low, high)
