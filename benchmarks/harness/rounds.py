"""Rounds in which all sides have a turn, so that a machine that slows down slows them all; their medians."""

from __future__ import annotations

import os
import statistics
from pathlib import Path
from typing import Callable, Iterable, Mapping, Sequence, TypeVar

Found = TypeVar("Found")


def in_turns(
    sides: Mapping[str, Callable[[], Found]], rounds: int, warm_up: int = 0, to_and_fro: bool = False
) -> dict[str, list[Found]]:
    """Call every side once a round and return what each found, but for the first `warm_up` rounds.

    To and fro, every second round goes backwards, so that no side always follows the same one.
    """
    found: dict[str, list[Found]] = {name: [] for name in sides}
    for number in range(-warm_up, rounds):
        for name in list(sides)[:: -1 if to_and_fro and number % 2 == 0 else 1]:
            result = sides[name]()
            if number >= 0:
                found[name].append(result)
    return found


def medians(rows: Iterable[Sequence[float]]) -> tuple[float, ...]:
    """Return the median of each column."""
    return tuple(map(statistics.median, zip(*rows)))


def spread(
    values: Sequence[float], form: str = ".2f", middle: Callable[[Sequence[float]], float] = statistics.mean
) -> str:
    """Return in words the mean, or another middle, and the least and the most."""
    return f"{middle(values):{form}} ({min(values):{form}} to {max(values):{form}})"


class Neighbours:
    """The share that other processes of this machine have of the CPU time that is used from now on."""

    def __init__(self) -> None:
        self.before = _cpu_seconds()

    def share(self) -> float:
        own, everyones = (after - before for before, after in zip(self.before, _cpu_seconds()))
        return 1 - own / everyones if everyones else 0.0


def _cpu_seconds() -> tuple[float, float]:
    """Return the CPU time used so far by our finished children, and by all processes of this machine."""
    children = os.times()
    user, nice, system = Path("/proc/stat").read_text().split()[1:4]
    of_all = (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")
    return children.children_user + children.children_system, of_all
