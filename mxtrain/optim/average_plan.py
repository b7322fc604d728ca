"""Points of a run at which `--average N` takes weights: N of them an epoch apart, the last some steps before the end.

Owns these points. The steps after the last move no weights any more: they settle the running statistics of the mean
(`average.py`). Needs no mxnet.
"""

from __future__ import annotations

from typing import NamedTuple

from mxtrain.config import Optim
from mxtrain.core.errors import UsageError
from mxtrain.data.loading.run_plan import RunLength

MOST_SETTLING_STEPS = 50


class AveragePlan(NamedTuple):
    """The points at which weights are taken, as numbers of steps done."""

    taken_after: tuple[int, ...]

    def is_settling(self, step: int) -> bool:
        """Return whether the step that follows on `step` steps leaves the weights alone."""
        return bool(self.taken_after) and step >= self.taken_after[-1]


def of_run(optim: Optim, length: RunLength) -> AveragePlan | None:
    """Return the plan of a run of this length; None where nothing is averaged. UsageError where it is too short."""
    if not optim.average:
        return None
    steps_per_epoch, num_steps = length
    last = num_steps - settling_steps(optim, length)
    points = tuple(last - round(steps_per_epoch * number) for number in reversed(range(optim.average)))
    if points[0] <= 0:
        raise UsageError(
            f"--average {optim.average}: the run has {num_steps} steps, {num_steps / steps_per_epoch:.3g} epochs, the "
            "last of which settles the mean; give fewer, or more --epochs"
        )
    return AveragePlan(points)


def settling_steps(optim: Optim, length: RunLength) -> int:
    """Return how many steps at the end of the run move no weights."""
    return min(int(length.steps_per_epoch), MOST_SETTLING_STEPS) if optim.average else 0
