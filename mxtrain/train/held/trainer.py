"""The trainer of a net that holds none of its weights: what it updates is with their owners.

What checkpoints keep of these is read and written by `stored.py`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Sequence

import numpy as np

from mxtrain.cluster.worker_group import WorkerGroup, sum_arrays
from mxtrain.core.params_file import NamedArrays
from mxtrain.data.fields import Array
from mxtrain.kvstore.owners.owner import Owners, StepSums, Update
from mxtrain.kvstore.owners.traffic import Traffic
from mxtrain.optim.sums.grid import Grid
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray, Optimizer, Parameter
from mxtrain.train.held import stored


class HeldTrainer:
    """The `owners` of these parameters as a `StepTrainer`; a step gives them its gradients itself, over `traffic`.

    Of all parameters those that are in `held` are here, others are not.
    """

    is_remote = False
    staleness: int | None = None

    def __init__(
        self,
        parameters: Sequence[Parameter],
        held: Sequence[Parameter],
        optimizer: Optimizer,
        owners: Owners,
        traffic: Traffic,
        group: WorkerGroup,
    ):
        self.parameters, self.held, self.optimizer = list(parameters), list(held), optimizer
        self.owners, self.traffic, self._group = owners, traffic, group
        self._sums: StepSums | None = None

    def start_reduce(self) -> None:
        """Do nothing: gradients are summed as they are pushed."""

    def finish_reduce(self, statistics: Sequence[NDArray] = ()) -> None:
        """Sum `statistics` over the workers."""
        if statistics and self._group.world_size > 1:
            totals = sum_arrays(self._group, [each.asnumpy() for each in statistics])
            for array, total in zip(statistics, totals):
                array[:] = mx.nd.array(total)

    def reduce_again(self, is_wide: Array, grid: Grid) -> None:
        """Do nothing: wide blocks are pushed with all their digits."""

    def sums(self) -> StepSums:
        """Return what is to be known of the sums of the step, once all workers have pushed theirs."""
        self._sums = self.owners.finish()
        return self._sums

    def gradient_norm(self, gradients: Sequence[NDArray] = ()) -> float:
        """Return the norm of the step's `sums`, whoever holds gradients."""
        assert self._sums is not None, "asked for before"
        return math.sqrt(self._sums.squares.sum(dtype=np.float64))

    def apply(self, rate: float, factor: float, unscale: float = 1.0, clip: float = 0.0) -> None:
        """Have the owners update the weights; gradients are multiplied by `unscale` and clipped to `clip` before."""
        self.owners.apply(Update(rate, factor, unscale, clip))

    def skip_update(self) -> None:
        """Have the owners drop the sums."""
        self.owners.drop()

    def synchronize(self) -> None:
        """Do nothing: there is one copy of the weights."""

    def drop_residuals(self) -> None:
        """Do nothing: gradients are not compressed."""

    def optimizer_state(self) -> tuple[NamedArrays, dict[str, int]]:
        counts = dict(self.owners.update_counts())
        return stored.states(self.owners, self.optimizer, self.parameters, counts), counts

    def load_optimizer_state(self, path: str, counts: dict[str, int]) -> None:
        if self._group.rank == 0:
            stored.give_states(self.owners, Path(path), list(map(int, counts)))
        self.owners.set_update_counts(counts)
