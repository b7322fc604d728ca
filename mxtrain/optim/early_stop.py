"""Early stopping: `--early-stop`.

Owns the best score so far and the end of patience, as pure functions of a small value that checkpoints hold; so a stop
and a resume anywhere change nothing. The loop decides what follows.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Best(NamedTuple):
    """The best score so far, the number of steps before it, and the number of evaluations since."""

    score: float
    step: int
    evaluations_since: int = 0


def updated(best: Best | None, score: float, step: int, is_lower_better: bool = False) -> Best:
    """Return the best after a new `score` at `step`; an equal one is no better, any finite one better than none."""
    sign = -1 if is_lower_better else 1
    if best is None or _merit(sign * score) > _merit(sign * best.score):
        return Best(score, step)
    return best._replace(evaluations_since=best.evaluations_since + 1)


def _merit(score: float) -> tuple[bool, float]:
    return math.isfinite(score), score


def is_over(best: Best | None, patience: int) -> bool:
    """Return whether the last `patience` evaluations brought nothing better; never for a patience of 0."""
    return best is not None and 0 < patience <= best.evaluations_since
