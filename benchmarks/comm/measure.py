"""Measurement in a worker of any side: it sums the same arrays with the others repeatedly, and prints the time."""

from __future__ import annotations

import time
from typing import Any, Callable, NamedTuple, Sequence

from benchmarks.comm import wire
from benchmarks.harness.groups import answer_turns

STEPS = 5
NUM_CALLS = STEPS + 1


class Taken(NamedTuple):
    """The time and the bytes of one step at one worker."""

    seconds: float
    sent: int
    received: int


def take_turns(fill: Callable[[], None], reduce: Callable[[], None], is_right: Callable[[], bool]) -> None:
    """For each line of stdin, start with ones and print what a call of `reduce` takes, until stdin ends.

    A call waits until every sum is there, so no worker runs ahead of the others; after NUM_CALLS the sums are
    looked at.
    """

    def turn() -> Taken:
        fill()
        reduce()
        before, started = wire.num_bytes(), time.perf_counter()
        for _ in range(STEPS):
            reduce()
        seconds = time.perf_counter() - started
        sent, received = ((after - start) // STEPS for after, start in zip(wire.num_bytes(), before))
        assert is_right(), "not the sums"
        return Taken(seconds / STEPS, sent, received)

    answer_turns(turn)


def slowest(answers: Sequence[Sequence[Any]]) -> Taken:
    """Return what the slowest of the workers took."""
    return max(Taken(*answer) for answer in answers)


def expected(num_workers: int) -> float:
    """Return the value of all sums after a turn, in which each worker sums its last sums again."""
    return float(num_workers**NUM_CALLS)
