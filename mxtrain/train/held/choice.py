"""The one place that tells how a run is trained: by a net that is here as a whole, by one that lies on several
devices, or one segment at a time.
"""

from __future__ import annotations

from typing import Callable

from mxtrain.config.checks import hold_checks
from mxtrain.models.stages import StagedNet
from mxtrain.train.context import TrainContext, build_context
from mxtrain.train.held.context import held_context
from mxtrain.train.held.held_net import HeldNet
from mxtrain.train.held.step import held_step
from mxtrain.train.job import TrainingJob
from mxtrain.train.staged.step import staged_step
from mxtrain.train.step import train_step
from mxtrain.train.step_end import StepResult


def context_of(job: TrainingJob) -> TrainContext:
    """Return everything that a first step of `job` needs."""
    return held_context(job) if hold_checks.is_held(job.run) else build_context(job)


def step_of(context: TrainContext) -> Callable[..., StepResult]:
    """Return the training step of a context."""
    if isinstance(context.net, StagedNet):
        return staged_step
    return held_step if is_held(context) else train_step


def is_held(context: TrainContext) -> bool:
    """Return whether this worker holds one segment of the net at a time."""
    return isinstance(context.net, HeldNet)
