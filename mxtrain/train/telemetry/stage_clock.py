"""The stopwatch of a training process: where its wall time goes, stage by stage.

Each lap gives all the time since the last one to a stage, so the stages add up to wall time whatever happens between.
Which code belongs to which stage is said where it runs (`train/loop.py`, `train/step.py`), and in docs/records.md.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

STEP_STAGES = ("split", "load", "compute", "synchronize", "update")
COMPUTE_STAGES = ("forward", "loss", "backward")  # of a sampled step; otherwise they are one
OTHER = "other"  # of the time between two records of steps
FIRST_SAMPLES = (2, 5, 10, 20)  # the first step compiles


def is_sampled(step: int, every: int) -> bool:
    """Return whether step number `step`, from 1, is looked at closely: some of the first are, and each `every`th.

    It follows from the number alone, so that all workers agree, and a resumed run with the run that was not stopped.
    """
    return every > 0 and (step in FIRST_SAMPLES or step % every == 0)


class Lap(NamedTuple):
    """A stretch of time by time.monotonic()."""

    what: str
    began: float
    ended: float


class StageClock:
    """A stopwatch that has been running since `began`, by time.monotonic(); left out: since now.

    Each `sample_steps`th step is sampled: whoever laps forward, loss and backward then waits between them.
    """

    def __init__(self, began: float | None = None, sample_steps: int = 0):
        self.is_sampling = False
        self.spans: list[Lap] | None = None  # a list, to which laps are added, while a profile wants them
        self.sample_steps = sample_steps
        self._last = time.monotonic() if began is None else began
        self._seconds: dict[str, float] = {}

    def start_step(self, number: int) -> None:
        """Begin step `number`, from 1."""
        self.is_sampling = is_sampled(number, self.sample_steps)

    def lap(self, stage: str) -> None:
        """Give the time since the last lap to a stage of the step."""
        if stage in COMPUTE_STAGES and not self.is_sampling:
            stage = "compute"
        self._seconds[stage] = self._seconds.get(stage, 0.0) + self.lap_apart(stage)

    def lap_apart(self, what: str = "start") -> float:
        """Return the time since the last lap, which belongs to no step: to a start, an evaluation or a checkpoint."""
        now = time.monotonic()
        if self.spans is not None:
            self.spans.append(Lap(what, self._last, now))
        seconds, self._last = now - self._last, now
        return seconds

    def rest(self) -> float:
        """Return the time since the last lap, with that of laps behind the last step, which no other one will take."""
        behind, self._seconds = sum(self._seconds.values()), {}
        return behind + self.lap_apart("end")

    def take(self) -> dict[str, Any]:
        """Return the times of a step, all since they were taken last, by their names in records, to the microsecond."""
        taken = {stage: round(each, 6) for stage, each in self._seconds.items()}
        self._seconds = {}
        of_compute = {stage: taken.get(stage, 0.0) for stage in COMPUTE_STAGES}
        taken["compute"] = taken.get("compute", 0.0) + sum(of_compute.values())
        stages = {stage: taken.get(stage, 0.0) for stage in STEP_STAGES}
        times = {
            "seconds": round(sum(stages.values()), 6),
            **_named(stages),
            **_named({OTHER: taken.get(OTHER, 0.0)}),
        }
        return {**times, "sampled": True, **_named(of_compute)} if self.is_sampling else times


def _named(seconds: dict[str, float]) -> dict[str, float]:
    return {f"{stage}_seconds": round(each, 6) for stage, each in seconds.items()}
