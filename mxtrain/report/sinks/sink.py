"""The interface of a sink, and what it knows of the run that it shows; each is a file beside this one.

Which there are is said in `config/components/sinks.py`; when they are opened and closed is `writers.py`'s.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

from mxtrain.report.sinks.record import Record


class Sink(Protocol):
    """Shows the records of a run somewhere."""

    def write(self, record: Record) -> None:
        """Show a record; where this fails the run goes on without the sink."""

    def close(self) -> None:
        """End: no record follows."""


class Shown(NamedTuple):
    """The names of the numbers that the console shows beside the loss and the rate.

    Of evaluations these are the score, and what --metric adds: `others` are the task's, which only the records have.
    """

    unit: str = "images"  # of speed
    step_means: tuple[str, ...] = ("accuracy",)
    score: str = "accuracy"
    others: frozenset[str] = frozenset()


OF_PICTURES = Shown()


class Logged(NamedTuple):
    """A run as its sinks have to know it."""

    out: Path
    num_steps: int
    num_epochs: int = 0
    sinks: tuple[str, ...] = ()  # of --log
    step: int = 0  # steps that are done
    epoch: int = 0
    is_scored: bool = True  # the last of these steps is evaluated
    shown: Shown = OF_PICTURES
    job_restarts: int = 0  # of its cluster, by whoever restarts that
