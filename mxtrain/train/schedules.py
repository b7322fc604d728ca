"""Learning rates as pure functions of how far the run has come.

A schedule maps progress after the warm-up, from 0 to 1, to a factor on the peak rate. It keeps no state, so a
resumed run needs nothing but its step.
"""

from __future__ import annotations

import math
from typing import Callable

from mxtrain.names import load_path

Schedule = Callable[[float], float]

BY_NAME: dict[str, Schedule] = {
    "constant": lambda progress: 1.0,
    "cosine": lambda progress: 0.5 * (1.0 + math.cos(math.pi * progress)),
    "linear": lambda progress: 1.0 - progress,
    "poly": lambda progress: (1.0 - progress) ** 2,
    "step": lambda progress: 0.1 ** min(int(progress * 3.0), 2),
}


def by_name(name: str) -> Schedule:
    found = BY_NAME.get(name)
    return found if found is not None else load_path("--schedule", name)


def learning_rate(schedule: Schedule, step: int, peak: float, warmup_steps: int, num_steps: int) -> float:
    """The rate of update number `step`, counted from 0, of a run of `num_steps` updates."""
    if step < warmup_steps:
        return peak * (step + 1) / (warmup_steps + 1)
    progress = (step - warmup_steps) / max(1, num_steps - warmup_steps)
    return peak * schedule(min(progress, 1.0))
