"""The trainer over a store: gradients here become gradients everywhere.

Owns how `gluon.Trainer` meets the KVStore. Gradients are summed, over devices and then over workers, and every worker
applies the same update, so clipping, loss scaling and short batches need nothing special.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup
from mxtrain.config.names import is_async
from mxtrain.core.params_file import Arrays
from mxtrain.kvstore.buckets import Buckets
from mxtrain.kvstore.opening import open_store
from mxtrain.kvstore.remote_trainer import RemoteTrainer
from mxtrain.models import sparse_rows, weights
from mxtrain.optim import precision
from mxtrain.runtime import mx


class GradientBuckets(NamedTuple):
    """What goes from worker to worker in each step."""

    gradients: Buckets
    statistics: Buckets | None


class Trainer(mx.gluon.Trainer):  # type: ignore[misc]
    """Gluon's, but for the reduction, which goes on from this worker's devices to the other workers."""

    staleness: int | None = None  # all wait for each other, so no gradient is of old weights

    def __init__(
        self, parameters: Sequence[Any], optimizer: Any, kvstore: str, travelling: GradientBuckets | None
    ):
        super().__init__(list(parameters), optimizer, kvstore=kvstore, update_on_kvstore=False)
        self.travelling = travelling

    def begin(self) -> None:
        """Send the gradients on their way, as they will be when all that computes them now is done."""
        super()._allreduce_grads()
        if self.travelling is not None:
            self.travelling.gradients.begin([first for first, *_ in self._gradients()])

    def finish(self, statistics: Sequence[Any] = ()) -> None:
        """Put the sums over all devices and workers in the gradients' place, and in that of `statistics`."""
        if self.travelling is None:
            return
        gradients = self._gradients()
        if statistics and self.travelling.statistics is not None:
            self.travelling.statistics.begin(statistics)
            self.travelling.statistics.finish(statistics)
        self.travelling.gradients.finish([first for first, *_ in gradients])
        for first, *others in gradients:
            for other in others:
                first.copyto(other)

    def norm(self, gradients: Sequence[Any]) -> float:
        """The length of what is applied; by now all workers have the same."""
        return precision.norm(gradients)

    def apply(self, rate: float, factor: float) -> None:
        """Update the weights by the gradients times `factor`."""
        self.set_learning_rate(rate)
        self._scale = factor
        self.update(1)

    def undo(self) -> None:
        """The step's gradients are not applied: what compression kept of them is not either."""
        if self.travelling is not None:
            self.travelling.gradients.undo()

    def state(self) -> tuple[Arrays, dict[str, int]]:
        """Of the optimizer: its arrays, and how often each parameter has been updated."""
        return weights.of_optimizer(self), weights.update_counts(self)

    def load_state(self, path: str, counts: dict[str, int]) -> None:
        weights.load_optimizer(self, path, counts)

    def meet(self) -> None:
        """Be in a state that a checkpoint holds whole: what compression has kept for later steps is given up."""
        if self.travelling is not None:
            self.travelling.gradients.forget()

    def _gradients(self) -> list[list[Any]]:
        """Of each parameter, on each device."""
        return [parameter.list_grad() for parameter in self._params if parameter.grad_req != "null"]

    def _allreduce_grads(self) -> None:
        self.begin()
        self.finish()


def open_trainer(
    parameters: Sequence[Any],
    optimizer: Any,
    kvstore: str,
    statistics: Sequence[Any] = (),
    threshold: float = 0.0,
    group: WorkerGroup = SINGLE_WORKER,
) -> Trainer | RemoteTrainer:
    """A trainer whose store is up and whose contexts, on all workers, hold equal weights.

    The stock Trainer does both inside its first step, after the first forward has used weights that the store
    then replaces; over several processes that even races the first gradients, which it may take for weights.
    `statistics` are the parameters that the workers add up besides the gradients, which a `threshold` compresses.
    """
    if is_async(kvstore) or ("dist" in kvstore and any(map(sparse_rows.is_table, parameters))):
        return RemoteTrainer(parameters, optimizer, kvstore, group)
    travelling = _travelling(kvstore, parameters, statistics, threshold) if "dist" in kvstore else None
    trainer = Trainer(parameters, optimizer, _over_devices(kvstore), travelling)
    trainer._init_kvstore()
    trainer._init_params()
    mx.nd.waitall()
    return trainer


def _over_devices(kvstore: str) -> str:
    """Who sums for one worker's devices: the host, or the devices themselves where the name says so."""
    return kvstore if "dist" not in kvstore else "device" if "device" in kvstore else "local"


def _travelling(
    kvstore: str, parameters: Sequence[Any], statistics: Sequence[Any], threshold: float
) -> GradientBuckets:
    """Once they have brought everybody the same weights."""
    kv = open_store(kvstore)
    trained = [parameter for parameter in parameters if parameter.grad_req != "null"]
    gradients = _equal(kv, trained, "gradients", threshold)
    for parameter, home in zip(trained, gradients.homes):
        _compute_in(home, parameter)
    return GradientBuckets(gradients, _equal(kv, statistics, "statistics") if statistics else None)


def _equal(kv: Any, parameters: Sequence[Any], name: str, threshold: float = 0.0) -> Buckets:
    """Buckets for arrays like the parameters, which they leave the same on all workers and devices."""
    arrays = [parameter.list_data()[0] for parameter in parameters]
    shapes, context = [array.shape for array in arrays], arrays[0].context if arrays else None
    buckets = Buckets(kv, shapes, threshold=threshold, name=name, context=context)
    buckets.broadcast(arrays)
    for parameter, array in zip(parameters, arrays):
        parameter.set_data(array)
    return buckets


def _compute_in(home: Any, parameter: Any) -> None:
    """Let the parameter's gradients on its first device be computed there."""
    parameter._grad[0] = home
    mx.autograd.mark_variables(parameter.list_data(), parameter.list_grad(), parameter.grad_req)
