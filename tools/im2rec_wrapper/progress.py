"""How far packing and checking are, as their items pass."""

from __future__ import annotations

import sys
import time
from typing import Iterable, Iterator, TypeVar

from mxtrain.report.progress import Progress

T = TypeVar("T")


def shown(outcomes: Iterable[T], num_expected: int, num_before: int = 0, unit: str = "images") -> Iterator[T]:
    """The same outcomes, their number shown on stderr as they pass; an earlier run had `num_before`."""
    progress = Progress(sys.stderr, num_expected, num_before, f" {unit}")
    started = time.monotonic()
    try:
        for count, outcome in enumerate(outcomes, 1):
            yield outcome
            rate = count / max(time.monotonic() - started, 1e-9)
            done = num_before + count
            progress.at(done, f"{done} of {num_expected} {unit}, {rate:.0f} a second")
    finally:
        progress.close()
