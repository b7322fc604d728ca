"""A range of steps, as in `--profile 100:110`: both ends belong to it, and step 1 is the first of a run."""

from __future__ import annotations

import re
from typing import NamedTuple

from mxtrain.core.errors import UsageError

MOST = 1000  # steps: MXNet keeps what it measures in memory, hundreds of numbers a step


class StepRange(NamedTuple):
    """Steps by their numbers in metrics.jsonl."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}:{self.last}"


def parse(text: str) -> StepRange:
    """Return the range that `--profile` names; UsageError for another text."""
    found = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", text.strip())
    if not found:
        raise UsageError(f"--profile {text}: give the numbers of two steps, as in --profile 100:110")
    steps = StepRange(int(found[1]), int(found[2]))
    if steps.first < 1:
        raise UsageError(f"--profile {text}: step 1 is the first")
    if steps.last < steps.first:
        raise UsageError(
            f"--profile {text}: it ends before it begins; give --profile {steps.last}:{steps.first}"
        )
    if steps.last - steps.first >= MOST:
        raise UsageError(f"--profile {text}: give {MOST} steps or fewer; ten tell as much")
    return steps


def check_end(text: str, num_steps: int) -> None:
    """Raise UsageError where the run of `num_steps` ends before the range does."""
    if text and parse(text).last > num_steps:
        raise UsageError(f"--profile {text}: the run has {num_steps} steps; give a range within them")
