"""Notices that a run is losing what it has learnt: for dist_async, whose updates are late and can swing themselves up.

Pure arithmetic over the losses of one worker. A loss that is no number is not its business: such a step is skipped.
"""

from __future__ import annotations

import dataclasses
import statistics

WINDOW = 20  # losses, the median of which counts: one odd batch rings no bell
WARNING, DIVERGED = 3.0, 10.0  # times the best median there was
# A loss that has fallen by more than this may rise again without anything being lost: 0.001 is as good as 0.01.
ENOUGH = 0.1


@dataclasses.dataclass(frozen=True)
class Alarm:
    """What is remembered of the losses so far."""

    losses: tuple[float, ...] = ()
    first: float | None = None  # median of the first window
    best: float = float("inf")
    level: str = "calm"  # or warning, or diverged

    @property
    def median(self) -> float:
        return statistics.median(self.losses)


def after(alarm: Alarm, loss: float) -> Alarm:
    """With one more loss. `level` is that of the newest window; a caller tells of its changes."""
    losses = (*alarm.losses, loss)[-WINDOW:]
    if len(losses) < WINDOW:
        return dataclasses.replace(alarm, losses=losses)
    median = statistics.median(losses)
    first = median if alarm.first is None else alarm.first
    best = min(alarm.best, median)
    reference = max(best, first * ENOUGH)
    level = (
        "diverged" if median > DIVERGED * reference else "warning" if median > WARNING * reference else "calm"
    )
    # Of a loss that goes below zero nobody can say how many times worse it has become.
    return Alarm(losses, first, best, level if reference > 0 else "calm")


def describe(alarm: Alarm) -> str:
    """One line of how bad it is."""
    return f"the loss's median over {WINDOW} steps is {alarm.median:.4g}, it has been {alarm.best:.4g}"
