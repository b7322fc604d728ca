"""What every side's workers do: sum the same arrays with the others again and again, and say how long that takes."""

from __future__ import annotations

import json
import sys
import time
from typing import Callable, NamedTuple, Sequence

from benchmarks.comm import wire

STEPS = 5
NUM_CALLS = STEPS + 1


class Taken(NamedTuple):
    """By one step, at one worker."""

    seconds: float
    sent: int
    received: int


def take_turns(fill: Callable[[], None], reduce: Callable[[], None], is_right: Callable[[], bool]) -> None:
    """For every line that comes in, begin with ones, and print what a call takes, until no more lines come.

    A call waits until every sum is there, so no worker runs ahead of the others; after NUM_CALLS the sums are
    looked at.
    """
    for _ in sys.stdin:
        fill()
        reduce()
        before, started = wire.num_bytes(), time.perf_counter()
        for _ in range(STEPS):
            reduce()
        seconds = time.perf_counter() - started
        sent, received = ((after - start) // STEPS for after, start in zip(wire.num_bytes(), before))
        assert is_right(), "not the sums"
        print(json.dumps(Taken(seconds / STEPS, sent, received)), flush=True)


def slowest(lines: Sequence[str]) -> Taken:
    """Of the workers that printed these."""
    return max(Taken(*json.loads(line)) for line in lines)


def expected(num_workers: int) -> float:
    """The value of all sums after a turn: each worker went on with the sums it had got."""
    return float(num_workers**NUM_CALLS)
