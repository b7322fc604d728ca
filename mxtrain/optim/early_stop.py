"""When a run has stopped getting better: `--early-stop`.

Pure: what is known of the scores so far is a small value that checkpoints keep, so a stop anywhere changes nothing.
"""

from __future__ import annotations

from typing import NamedTuple


class Best(NamedTuple):
    """The best score so far, after how many steps it came, and the evaluations since then."""

    score: float
    step: int
    evaluations_since: int = 0


def updated(best: Best | None, score: float, step: int) -> Best:
    """What is best once `score` has come; one that is only as good is no better."""
    if best is None or score > best.score:
        return Best(score, step)
    return best._replace(evaluations_since=best.evaluations_since + 1)


def is_over(best: Best | None, patience: int) -> bool:
    """Whether the last `patience` evaluations brought nothing better; never for 0."""
    return best is not None and 0 < patience <= best.evaluations_since
