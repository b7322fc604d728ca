"""Results of a net's rounds. Pure functions."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any, NamedTuple, Sequence

from benchmarks.scale.model import Work
from benchmarks.scale.worker import Timed

# Bytes of gradients that a server receives, adds and sends back in a second of one core: it took 152 ms a step of
# resnet50's two workers over unix sockets. Servers of their host have no such work, those over a network do.
ADDING = 2 * 102e6 / 0.152


class Waits(NamedTuple):
    """Times of two workers in one step, in seconds; `exposed` is from the later one's last gradient to its last sum."""

    hides: bool
    seconds: float
    exposed: float


@dataclasses.dataclass
class Rounds:
    """The rounds of one net and one store of its two workers: a list for each."""

    num_bytes: int = 0
    num_buckets: int = 0
    alone: list[list[float]] = dataclasses.field(default_factory=list)
    hideable: list[float] = dataclasses.field(default_factory=list)  # from the first gradient to the last
    apart: list[list[float]] = dataclasses.field(default_factory=list)
    together: list[list[Waits]] = dataclasses.field(default_factory=list)
    server_cpu_seconds: list[float] = dataclasses.field(
        default_factory=list
    )  # a step; empty without a server
    timeline: list[tuple[float, float]] = dataclasses.field(
        default_factory=list
    )  # computed, summed; a late step

    def efficiency(self, hides: bool, of_apart: bool = False) -> float:
        """Return the median round's efficiency against one worker alone, or against two independent ones."""
        bases = self.apart if of_apart else self.alone
        return statistics.median(
            statistics.median(base) / statistics.median(self._of(steps, hides, "seconds"))
            for base, steps in zip(bases, self.together)
        )

    def median(self, name: str, hides: bool) -> float:
        return statistics.median(value for steps in self.together for value in self._of(steps, hides, name))

    @property
    def seconds_alone(self) -> float:
        return statistics.median(value for one in self.alone for value in one)

    @property
    def hidden(self) -> float:
        """Return the share of the sums' time that no worker waits for, because gradients are still computed."""
        return 1 - self.median("exposed", True) / self.median("exposed", False)

    def work(self) -> Work:
        hideable = min(1.0, statistics.median(self.hideable) / self.seconds_alone)
        steps = [value for one in self.alone for value in one]
        return Work(self.num_bytes, self.seconds_alone, hideable, spread(steps), self.num_buckets)

    @staticmethod
    def _of(steps: Sequence[Waits], hides: bool, name: str) -> list[float]:
        return [getattr(each, name) for each in steps if each.hides == hides]


def read(answer: list[Any]) -> tuple[int, list[Timed]]:
    """Return the bytes and the steps of a worker's answer."""
    num_bytes, steps = answer
    return num_bytes, [Timed(*each) for each in steps]


def waits(workers: Sequence[Sequence[Timed]]) -> list[Waits]:
    """Return the times of each step, given those of its workers.

    A worker also waits for the other's gradients; only the one whose own come last waits for nothing but sums.
    """
    found = []
    for steps in zip(*workers):
        exposed = min(each.finished - each.computed[-1] for each in steps)
        found.append(Waits(steps[0].hides, max(each.seconds for each in steps), exposed))
    return found


def spread(values: Sequence[float]) -> float:
    """Return standard deviation over median, from the middle two thirds: an interrupted step is not jitter."""
    low, *_, high = statistics.quantiles(values, n=6)
    # 5/6 of a normal distribution lie below 0.967 standard deviations.
    return (high - low) / (2 * 0.967) / statistics.median(values)
