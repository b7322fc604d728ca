"""The trainer that updates on the workers: stores `local`, `device`, `dist_sync` and `allreduce`.

Owns how gluon's Trainer works with the sums of a cluster. Gradients are summed over devices, then over workers, and
every worker applies the same update; so clipping, loss scaling and short batches need nothing special. Does not own
the sums over workers (`worker_sums.py`) or the optimizer's arithmetic (`optim`).
"""

from __future__ import annotations

import itertools
from typing import Any, Sequence

from mxtrain.config.components import stores
from mxtrain.core.params_file import Arrays
from mxtrain.data.fields import Array
from mxtrain.kvstore.trainers.worker_updates import UpdatesOnWorkers
from mxtrain.kvstore.updater import Updater
from mxtrain.kvstore.worker_sums import WorkerSums
from mxtrain.optim import optimizer_state
from mxtrain.optim.sums.grid import Grid
from mxtrain.optim.update import Update, unscale_and_clip
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray, Optimizer, Parameter


class LocalTrainer(UpdatesOnWorkers, mx.gluon.Trainer):
    """gluon's Trainer with a reduction that continues from this worker's devices to the other workers.

    Without `sums` there are no other workers.
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        optimizer: Optimizer,
        kvstore: str,
        sums: WorkerSums | None = None,
    ):
        super().__init__(list(parameters), optimizer, kvstore=kvstore, update_on_kvstore=False)
        self._updaters: list[Any] = [Updater(self._optimizer) for _ in self._contexts]
        self.sums = sums

    @property
    def parameters(self) -> Sequence[Parameter]:
        found: list[Any] = self._params
        return found

    def start_reduce(self) -> None:
        super()._allreduce_grads()
        if self.sums is not None:
            self.sums.start([first for first, *_ in self._gradients()])

    def finish_reduce(self, statistics: Sequence[NDArray] = ()) -> None:
        if self.sums is None:
            return
        gradients = self._gradients()
        self.sums.finish([first for first, *_ in gradients], statistics)
        self._copy_to_other_devices(gradients)

    def reduce_again(self, is_wide: Array, grid: Grid) -> None:
        if self.sums is None:
            return
        gradients = self._gradients()
        mx.nd.waitall()  # until sums, whose memory is written to, have been copied to other devices
        self.sums.sum_again(is_wide, grid, [first for first, *_ in gradients])
        self._copy_to_other_devices(gradients)

    def _copy_to_other_devices(self, gradients: Sequence[Sequence[NDArray]]) -> None:
        for first, *others in gradients:
            for other in others:
                first.copyto(other)

    def apply(self, update: Update) -> None:
        unscale_and_clip(itertools.chain(*zip(*self._gradients())), update)  # device by device
        self.set_learning_rate(update.rate)
        self._scale = update.factor
        self.update(1)

    def optimizer_state(self) -> tuple[Arrays, dict[str, int]]:
        counts = optimizer_state.update_counts(self._optimizer, self._params)
        return optimizer_state.of_updater(self._updaters[0]), counts

    def load_optimizer_state(self, path: str, counts: dict[str, int]) -> None:
        optimizer_state.load(self._updaters, self._params, path, counts)

    def _gradients(self) -> list[list[NDArray]]:
        """Return each trained parameter's gradients, one for each device."""
        return [parameter.list_grad() for parameter in self._params if parameter.grad_req != "null"]

    def _allreduce_grads(self) -> None:
        self.start_reduce()
        self.finish_reduce()


def open_local(
    parameters: Sequence[Parameter], optimizer: Optimizer, kvstore: str, sums: WorkerSums | None = None
) -> LocalTrainer:
    """Return a trainer whose parameters are equal on all devices."""
    trainer = LocalTrainer(parameters, optimizer, _device_store(kvstore), sums)
    trainer._init_kvstore()
    trainer._init_params()
    mx.nd.waitall()
    return trainer


def _device_store(kvstore: str) -> str:
    """Return the store that sums over one worker's devices: `local` on the host, `device` on the devices."""
    return kvstore if not stores.is_cluster(kvstore) else "device" if "device" in kvstore else "local"
