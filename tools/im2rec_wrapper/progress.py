"""The progress line of packing and checking."""

from __future__ import annotations

import sys
import time
from typing import Iterable, Iterator, TypeVar

from mxtrain.report.sinks.progress import ProgressDisplay

T = TypeVar("T")


def with_progress(
    items: Iterable[T], num_expected: int, num_before: int = 0, unit: str = "images", shows: bool = True
) -> Iterator[T]:
    """Yield the same items, and show on stderr how many have passed; an earlier run had `num_before` of them."""
    progress = ProgressDisplay(sys.stderr if shows else None, num_expected, num_before, f"{{}} {unit}")
    started = time.monotonic()
    try:
        for count, item in enumerate(items, 1):
            yield item
            rate = count / max(time.monotonic() - started, 1e-9)
            done = num_before + count
            rate_text = f"{rate:.0f} a second"
            progress.update(done, f"{done} of {num_expected} {unit}, {rate_text}", [rate_text])
    finally:
        progress.close()
