"""The trainer over weights and optimizer that live on the servers.

Owns the face of `store.Trainer` there: for `dist_async`, where each worker's share of a step is an update of its own,
and for nets with row-sparse tables under `dist_sync`, where an update is made by the sum of all shares.
"""

from __future__ import annotations

import math
from typing import Any, Sequence

from mxtrain.cluster.worker_group import WorkerGroup, step_group, sum_arrays
from mxtrain.config.names import is_async
from mxtrain.core.params_file import Arrays
from mxtrain.kvstore.remote import Servers
from mxtrain.optim import precision
from mxtrain.runtime import mx


class RemoteTrainer:
    """A worker of `group`, which makes each step with the workers of `step_group(group, kvstore)`."""

    travelling = None

    def __init__(
        self,
        parameters: Sequence[Any],
        optimizer: Any,
        kvstore: str,
        group: WorkerGroup,
    ):
        # Updates that others made while our last gradients were computed.
        self.staleness = 0 if is_async(kvstore) else None
        self._params = list(parameters)
        self._step_group = step_group(group, kvstore)
        self._servers = Servers(self._params, optimizer, kvstore, group)
        self._saved: tuple[Arrays, int] = ({}, 0)

    def begin(self) -> None:
        """Sum the gradients over this worker's devices, on the first one."""
        for parameter in self._params:
            if parameter.grad_req != "null":
                first, *others = parameter.list_grad()
                for other in others:
                    first += other.as_in_context(first.context)

    def finish(self, statistics: Sequence[Any] = ()) -> None:
        """Sum `statistics` over the workers; nobody but the servers sees the sum of the gradients."""
        if not statistics or self._step_group.world_size == 1:
            return
        totals = sum_arrays(self._step_group, [array.asnumpy() for array in statistics])
        for array, total in zip(statistics, totals):
            array[:] = mx.nd.array(total)

    def norm(self, gradients: Sequence[Any]) -> float:
        """The length of all workers' shares of the gradient side by side, so that all judge a step alike."""
        of_share = precision.norm(gradients)
        return math.sqrt(self._step_group.sum([of_share * of_share])[0])

    def apply(self, rate: float, factor: float) -> None:
        """Have the servers take a step, by the gradients of the step's workers times `factor`."""
        staleness = self._servers.push_pull(rate, factor)
        if self.staleness is not None:
            self.staleness = staleness

    def undo(self) -> None:
        """Not an update, but the newest weights."""
        self._servers.pull()

    def meet(self) -> None:
        """All workers come to the servers' weights; so does the state that a checkpoint will hold."""
        self._saved = self._servers.save()

    def state(self) -> tuple[Arrays, dict[str, int]]:
        arrays, num_updates = self._saved
        return arrays, {str(index): num_updates for index in self._servers.trained}

    def load_state(self, path: str, counts: dict[str, int]) -> None:
        self._servers.load(dict(mx.nd.load(path)), max(counts.values(), default=0))
