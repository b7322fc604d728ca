"""The trainer over a store: gradients here become gradients everywhere.

Owns how `gluon.Trainer` meets the KVStore. Gradients are summed, over devices and then over workers, and every worker
applies the same update, so clipping, loss scaling and short batches need nothing special.
"""

from __future__ import annotations

from typing import Any, Sequence

from mxtrain.kv.buckets import Buckets
from mxtrain.runtime import mx


class Trainer(mx.gluon.Trainer):  # type: ignore[misc]
    """Gluon's, but for the reduction, which goes on from this worker's devices to the other workers."""

    def __init__(self, parameters: Sequence[Any], optimizer: Any, kvstore: str, buckets: Buckets | None):
        super().__init__(list(parameters), optimizer, kvstore=kvstore, update_on_kvstore=False)
        self.buckets = buckets
        self.beside: list[Any] = []

    def reduce(self, beside: list[Any]) -> None:
        """Sum the gradients over devices and workers, and over workers the arrays `beside` them, in place."""
        self.beside = beside
        self.allreduce_grads()

    def _allreduce_grads(self) -> None:
        super()._allreduce_grads()
        if self.buckets is None:
            return
        gradients = [parameter.list_grad() for parameter in self._params if parameter.grad_req != "null"]
        of_worker = [*(on_devices[0] for on_devices in gradients), *self.beside]
        self.buckets.begin(of_worker)
        self.buckets.finish(of_worker)
        for first, *others in gradients:
            for other in others:
                first.copyto(other)


def open_trainer(
    parameters: Sequence[Any], optimizer: Any, kvstore: str, beside: Sequence[Any] = ()
) -> Trainer:
    """A trainer whose store is up and whose contexts, on all workers, hold equal weights.

    The stock Trainer does both inside its first step, after the first forward has used weights that the store
    then replaces; over several processes that even races the first gradients, which it may take for weights.
    `beside` are the parameters whose statistics the workers add up together with the gradients.
    """
    trainer = Trainer(
        parameters, optimizer, _over_devices(kvstore), _over_workers(kvstore, parameters, beside)
    )
    trainer._init_kvstore()
    trainer._init_params()
    mx.nd.waitall()
    return trainer


def _over_devices(kvstore: str) -> str:
    """Who sums for one worker's devices: the host, or the devices themselves where the name says so."""
    return kvstore if "dist" not in kvstore else "device" if "device" in kvstore else "local"


def _over_workers(kvstore: str, parameters: Sequence[Any], beside: Sequence[Any]) -> Buckets | None:
    """What gradients and statistics travel in, once it has brought everybody the same weights."""
    if "dist" not in kvstore:
        return None
    travelling = [*(parameter for parameter in parameters if parameter.grad_req != "null"), *beside]
    buckets = Buckets(mx.kv.create(kvstore), [parameter.shape for parameter in travelling])
    weights = [parameter.list_data()[0] for parameter in travelling]
    buckets.broadcast(weights)
    for parameter, weight in zip(travelling, weights):
        parameter.set_data(weight)
    return buckets
