"""The seam between training and what is learnt (docs/adr/0021).

Owns the base class of a task: what a sample is, and what is learnt of it. Each task has a file of its own beside this
one, or is the user's. `interfaces/` has the halves, whose values are imported from here.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from mxtrain.config import Run
from mxtrain.config.program_objects import NO_OBJECTS, ProgramObjects
from mxtrain.tasks.interfaces.data import Description, TaskData
from mxtrain.tasks.interfaces.learning import (
    Forward,
    Metric,
    Outcome,
    Output,
    PredictionsAndTargets,
    Report,
    Score,
    State,
    TaskLearning,
)
from mxtrain.tasks.interfaces.prediction import TaskPrediction

__all__ = [
    "Description",
    "Forward",
    "Metric",
    "Outcome",
    "Output",
    "PredictionsAndTargets",
    "Report",
    "Score",
    "State",
    "Task",
    "TaskPrediction",
]


@dataclasses.dataclass(frozen=True)
class Task(TaskData, TaskLearning):
    """A thing to learn: made from a run, and from the description of its data that `describe` has given.

    A task has to say how samples (`TaskData`), a net and its losses (`TaskLearning`) are made; all else has a default.
    One that predicts has the methods of `TaskPrediction` too.
    """

    run: Run
    description: Description
    # Those of a Python program that stand in the place of names in the run; the registry sets them.
    objects: ProgramObjects = dataclasses.field(default=NO_OBJECTS, compare=False, repr=False)

    # The flags of `config/sections/`, by their names there, that it heeds of those in `task_flags.ONLY_SOME_TASKS`.
    flags: ClassVar[frozenset[str]] = frozenset()

    @property
    def is_of_pictures(self) -> bool:
        """Return True where samples are pictures, which `inputs_of` takes as encoded bytes too."""
        return "image_size" in self.flags
