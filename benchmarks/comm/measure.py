"""What every side's workers do: sum the same arrays with the others again and again, and say how long that takes."""

from __future__ import annotations

import json
import time
from typing import Callable, NamedTuple, Sequence

from benchmarks.comm import wire

WARM_UP = 3
STEPS = 20


class Taken(NamedTuple):
    """By one step, at one worker."""

    seconds: float
    sent: int
    received: int


def measure(reduce: Callable[[], None]) -> None:
    """Print what a call takes. It waits until every sum is there, so no worker runs ahead of the others."""
    for _ in range(WARM_UP):
        reduce()
    before, started = wire.num_bytes(), time.perf_counter()
    for _ in range(STEPS):
        reduce()
    seconds = time.perf_counter() - started
    sent, received = ((after - start) // STEPS for after, start in zip(wire.num_bytes(), before))
    print(json.dumps(Taken(seconds / STEPS, sent, received)))


def slowest(outputs: Sequence[str]) -> Taken:
    """Of the workers that printed these."""
    return max(Taken(*json.loads(output.splitlines()[-1])) for output in outputs)


def expected(num_workers: int) -> float:
    """The value of all sums in the end, where each worker began with ones and went on with the sums."""
    return float(num_workers ** (WARM_UP + STEPS))
