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
from mxtrain.kvstore.owners.owner import Owners, StepSums
from mxtrain.kvstore.owners.traffic import Traffic
from mxtrain.optim.sums.grid import Grid
from mxtrain.optim.update import Update
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray, Optimizer, Parameter
from mxtrain.train.held import stored


class HeldTrainer:
    """The `owners` of these parameters as a `StepTrainer`; a step gives them its gradients itself, over `traffic`.

    Of all parameters those that are in `held` are here, others are not.
    """

    is_remote = True
    staleness: int | None = None  # all workers wait for each other, so no gradient is of older weights

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
        """Do nothing: gradients are pushed segment by segment."""

    def finish_reduce(self, statistics: Sequence[NDArray] = ()) -> None:
        """Wait until all gradients are pushed, and sum `statistics` over the workers."""
        self.traffic.finish_pushes()
        if statistics and self._group.world_size > 1:
            totals = sum_arrays(self._group, [each.asnumpy() for each in statistics])
            for array, total in zip(statistics, totals):
                array[:] = mx.nd.array(total)
        self._sums = self.owners.finish()

    def reduce_again(self, is_wide: Array, grid: Grid) -> None:
        """Do nothing: wide blocks were pushed with all their digits."""

    def gradient_norm(self, gradients: Sequence[NDArray] = ()) -> float:
        """Return the norm of the sums, whoever has `gradients`."""
        assert self._sums is not None, "called before finish_reduce"
        return math.sqrt(self._sums.squares.sum(dtype=np.float64))

    def block_maxima(self) -> Array:
        assert self._sums is not None, "called before finish_reduce"
        return self._sums.maxima

    def apply(self, update: Update) -> None:
        self.owners.apply(update)

    def skip_update(self) -> None:
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
