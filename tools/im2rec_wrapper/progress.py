"""How far a long command is: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Iterable, Iterator, TypeVar

from tqdm import tqdm

T = TypeVar("T")
LINE_EVERY_SECONDS = 10.0


def shown(outcomes: Iterable[T], num_expected: int, num_before: int = 0, unit: str = "images") -> Iterator[T]:
    """The same outcomes, their number shown on stderr as they pass; an earlier run had `num_before`."""
    if sys.stderr.isatty():
        yield from tqdm(outcomes, total=num_expected, initial=num_before, unit=f" {unit}", smoothing=0.05)
        return
    started = last_line = time.monotonic()
    for count, outcome in enumerate(outcomes, 1):
        yield outcome
        now = time.monotonic()
        if now - last_line >= LINE_EVERY_SECONDS:
            rate = count / (now - started)
            left = (num_expected - num_before - count) / rate
            print(
                f"{num_before + count} of {num_expected} {unit}, {rate:.0f} a second, {left:.0f} s left",
                file=sys.stderr,
            )
            last_line = now
