"""The plan of a run, as arithmetic: how its steps share the samples of an epoch, and how many steps there are.

It follows from a run and from how many samples an epoch has, so it is made once, when the data is open, and handed on.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

from mxtrain.config import Optim, Run, batch_plan
from mxtrain.config.batch_plan import BatchPlan
from mxtrain.data.loading import order


class RunLength(NamedTuple):
    """The length of a run in steps; its last epoch may be cut short by --max-steps."""

    steps_per_epoch: float  # a whole number, but where --plot-schedule knows no data
    num_steps: int

    def epoch_of(self, step: int) -> int:
        """Return the epoch, from 1, that the update number `step`, from 1, belongs to."""
        return math.ceil(step / self.steps_per_epoch)

    def is_epoch_end(self, step: int) -> bool:
        """Return whether an epoch, or the run, ends with the update number `step`; 0 is before the first one."""
        return step > 0 and (step % self.steps_per_epoch == 0 or step == self.num_steps)


@dataclasses.dataclass(frozen=True)
class RunPlan:
    """The cut of a run into epochs of `num_samples`, steps and micro-batches."""

    num_samples: int
    length: RunLength
    batch: BatchPlan

    def micro_batches(self, step: int, rank: int = 0) -> dict[int, range]:
        """Return a worker's micro-batches of a step: from the position of each in the step to its slice of the epoch.

        A slice counts in the order of the epoch, not in the data set.
        """
        batch_size = self.batch.batch_size
        step_in_epoch = step % order.steps_per_epoch(self.num_samples, batch_size)
        of_step = order.step_samples(range(self.num_samples), step_in_epoch, batch_size)
        slices = order.micro_batches(of_step, self.batch.micro_batch)
        return {position: slices[position] for position in self.batch.positions(len(slices), rank)}


def of_run(run: Run, num_samples: int) -> RunPlan:
    """Return the plan of a run with so many samples in an epoch; UsageError where its flags contradict each other."""
    return RunPlan(num_samples, run_length(run.optim, num_samples), batch_plan.of_run(run))


def run_length(optim: Optim, num_samples: int) -> RunLength:
    """Return how many steps a run has, in an epoch and as a whole."""
    steps_per_epoch = order.steps_per_epoch(num_samples, optim.batch_size)
    num_steps = optim.epochs * steps_per_epoch
    return RunLength(steps_per_epoch, min(num_steps, optim.max_steps or num_steps))
