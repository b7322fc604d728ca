"""A training job: all that is known and decided before the first step, as plain data.

`session.py` makes the one of a run; the loop, what it is made of, and the measurements of `doctor` take it as it is.
Needs no mxnet.
"""

from __future__ import annotations

import dataclasses

from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.checkpoint.input_identity import InputIdentity
from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup
from mxtrain.config import Run
from mxtrain.data.interfaces import Dataset, Records
from mxtrain.data.loading import run_plan
from mxtrain.data.loading.run_plan import RunPlan
from mxtrain.tasks.task import Task


@dataclasses.dataclass(frozen=True)
class TrainingJob:
    """The task, data and plan of a training, where it goes on from, and who takes part in it."""

    task: Task
    train_set: Dataset
    val_set: Records | None
    identity: InputIdentity  # of the data sets and initial weights, by which checkpoints recognise them
    plan: RunPlan
    checkpoint: Checkpoint | None = None  # from which it goes on
    group: WorkerGroup = SINGLE_WORKER  # all workers, which have the same job
    began: float | None = None  # when this attempt did, by time.monotonic()
    restarts: int = 0  # how often the job of a cluster was started again

    @property
    def run(self) -> Run:
        """The run as it is trained."""
        return self.task.run


def of_data(task: Task, train_set: Dataset, val_set: Records | None = None) -> TrainingJob:
    """Return the job of one worker that begins with the first step, and whose data no checkpoint has to recognise."""
    num_samples = len(train_set)
    identity = InputIdentity(task.description, num_samples)
    return TrainingJob(task, train_set, val_set, identity, run_plan.of_run(task.run, num_samples))
