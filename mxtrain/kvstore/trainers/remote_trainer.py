"""The trainer that updates on the servers, which hold weights and optimizer.

Used for `dist_async`, where each worker's share of a step is an update of its own, and under `dist_sync` for nets with
row-sparse tables, where the sum of all shares is one update. Does not own what is sent and pulled
(`server_client.py`).
"""

from __future__ import annotations

import math
from typing import Sequence

from mxtrain.cluster.worker_group import WorkerGroup, step_group, sum_arrays
from mxtrain.config.components.stores import is_async
from mxtrain.core.params_file import Arrays
from mxtrain.data.fields import Array
from mxtrain.kvstore.server_client import ServerClient
from mxtrain.optim import precision
from mxtrain.optim.sums.grid import Grid
from mxtrain.optim.update import Update, unscale_and_clip
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray, Optimizer, Parameter


class RemoteTrainer:
    """A worker's trainer; the workers of `step_group(group, kvstore)` make each step with it."""

    is_remote = True

    def __init__(
        self, parameters: Sequence[Parameter], optimizer: Optimizer, kvstore: str, group: WorkerGroup
    ):
        self.staleness = 0 if is_async(kvstore) else None
        self.parameters = list(parameters)
        self._step_group = step_group(group, kvstore)
        self._servers = ServerClient(self.parameters, optimizer, kvstore, group)
        self._synchronized: tuple[Arrays, int] = ({}, 0)

    def start_reduce(self) -> None:
        """Sum the gradients over this worker's devices, on the first one; the servers sum over workers."""
        for parameter in self.parameters:
            if parameter.grad_req != "null":
                first, *others = parameter.list_grad()
                for other in others:
                    first += other.as_in_context(first.context)

    def finish_reduce(self, statistics: Sequence[NDArray] = ()) -> None:
        """Sum `statistics` over the workers; only the servers see the sum of the gradients."""
        if not statistics or self._step_group.world_size == 1:
            return
        totals = sum_arrays(self._step_group, [array.asnumpy() for array in statistics])
        for array, total in zip(statistics, totals):
            array[:] = mx.nd.array(total)

    def reduce_again(self, is_wide: Array, grid: Grid) -> None:
        """Do nothing: the servers add gradients as they come."""

    def gradient_norm(self, gradients: Sequence[NDArray]) -> float:
        """Return the norm of all workers' shares side by side: none has their sum, and all have to agree."""
        of_share = precision.l2_norm(gradients)
        return math.sqrt(self._step_group.sum([of_share * of_share])[0])

    def block_maxima(self) -> None:
        """Return nothing: sums that only servers see follow no grid."""

    def show_sums(self) -> bool:
        """Return whether a worker's own gradients are all that an update is made of."""
        return self.staleness is not None

    def apply(self, update: Update) -> None:
        unscale_and_clip([each.list_grad()[0] for each in self.parameters if each.grad_req != "null"], update)
        staleness = self._servers.push_pull(update.rate, update.factor)
        if self.staleness is not None:
            self.staleness = staleness

    def skip_update(self) -> None:
        """Pull the newest weights without an update."""
        self._servers.pull()

    def synchronize(self) -> None:
        self._synchronized = self._servers.save()

    def drop_residuals(self) -> None:
        """Do nothing: these stores do not compress."""

    def optimizer_state(self) -> tuple[Arrays, dict[str, int]]:
        arrays, num_updates = self._synchronized
        return arrays, {str(index): num_updates for index in self._servers.trained}

    def load_optimizer_state(self, path: str, counts: dict[str, int]) -> None:
        self._servers.load(dict(mx.nd.load(path)), max(counts.values(), default=0))
