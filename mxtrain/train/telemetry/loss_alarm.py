"""The alarm for a loss that rises for good, as it may under dist_async, whose late updates can build up an oscillation.

Pure arithmetic over the losses of one worker. Owns the levels. A loss that is no number does not come here: such a
step is skipped.
"""

from __future__ import annotations

import dataclasses
import statistics

WINDOW = 20  # losses, whose median counts, so that one odd batch raises no alarm
WARNING, DIVERGED = 3.0, 10.0  # times the best median so far
# A loss that has fallen by more than this may rise again without anything being lost: 0.001 is as good as 0.01.
ENOUGH = 0.1


@dataclasses.dataclass(frozen=True)
class LossAlarm:
    """The memory of the losses so far, and the level of alarm after them."""

    losses: tuple[float, ...] = ()
    first: float | None = None  # median of the first window
    best: float = float("inf")
    level: str = "calm"  # or warning, or diverged

    @property
    def median(self) -> float:
        return statistics.median(self.losses)


def updated(alarm: LossAlarm, loss: float) -> LossAlarm:
    """Return the alarm after one more loss; its level is that of the newest window."""
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
    return LossAlarm(losses, first, best, level if reference > 0 else "calm")


def message(alarm: LossAlarm) -> str:
    """Return how far the loss has risen, for a message."""
    return f"the loss's median over {WINDOW} steps is {alarm.median:.4g}, it has been {alarm.best:.4g}"
