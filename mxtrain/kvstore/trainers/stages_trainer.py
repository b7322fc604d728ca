"""The trainer of a net whose layers lie on several devices (`--stages`), each parameter on one: updates on the workers.

Gluon's Trainer wants all parameters on the same devices. This one has MXNet's updater move those of each device in
turn; sums over workers are `worker_sums.py`'s.
"""

from __future__ import annotations

from typing import Sequence

from mxtrain.core.params_file import Arrays
from mxtrain.data.fields import Array
from mxtrain.kvstore.trainers.worker_updates import UpdatesOnWorkers
from mxtrain.kvstore.updater import Updater
from mxtrain.kvstore.worker_sums import WorkerSums
from mxtrain.optim import optimizer_state
from mxtrain.optim.sums.gradients import compute_gradient_in
from mxtrain.optim.sums.grid import Grid
from mxtrain.optim.update import Update, unscale_and_clip
from mxtrain.runtime import mx
from mxtrain.runtime.types import Device, NDArray, Optimizer, Parameter


class StagesTrainer(UpdatesOnWorkers):
    """The trainer of these parameters; without `sums` there are no other workers.

    Gradients are computed in flat arrays, so that they can be added while a backward pass still computes others.
    """

    def __init__(self, parameters: Sequence[Parameter], optimizer: Optimizer, sums: WorkerSums | None = None):
        self.parameters, self._optimizer, self.sums = list(parameters), optimizer, sums
        optimizer.param_dict = dict(enumerate(self.parameters))
        self._updater = Updater(optimizer)
        self._trained = [each for each in self.parameters if each.grad_req != "null"]
        self._of_devices: dict[Device, list[int]] = {}
        for index, each in enumerate(self.parameters):
            if each.grad_req != "null":
                self._of_devices.setdefault(each.list_data()[0].context, []).append(index)
        if sums is None:
            for each in self._trained:
                (gradient,) = each.list_grad()
                flat = mx.nd.zeros((gradient.size,), ctx=gradient.context)
                compute_gradient_in(flat.reshape(gradient.shape), each)

    def start_reduce(self) -> None:
        if self.sums is not None:
            self.sums.start(self._gradients())

    def finish_reduce(self, statistics: Sequence[NDArray] = ()) -> None:
        if self.sums is not None:
            self.sums.finish(self._gradients(), statistics)

    def reduce_again(self, is_wide: Array, grid: Grid) -> None:
        if self.sums is not None:
            mx.nd.waitall()
            self.sums.sum_again(is_wide, grid, self._gradients())

    def apply(self, update: Update) -> None:
        unscale_and_clip(self._gradients(), update)
        self._optimizer.set_learning_rate(update.rate)
        self._optimizer.rescale_grad = update.factor
        for indices in self._of_devices.values():
            moved = [self.parameters[index] for index in indices]
            gradients = [each.list_grad()[0] for each in moved]
            self._updater(indices, gradients, [each.list_data()[0] for each in moved])

    def optimizer_state(self) -> tuple[Arrays, dict[str, int]]:
        counts = optimizer_state.update_counts(self._optimizer, self.parameters)
        return optimizer_state.of_updater(self._updater), counts

    def load_optimizer_state(self, path: str, counts: dict[str, int]) -> None:
        optimizer_state.load([self._updater], self.parameters, path, counts)

    def _gradients(self) -> list[NDArray]:
        return [each.list_grad()[0] for each in self._trained]
