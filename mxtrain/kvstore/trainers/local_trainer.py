"""The trainer that updates on the workers: stores `local`, `device`, `dist_sync` and `allreduce`.

Owns how gluon's Trainer works with the buckets of a cluster. Gradients are summed over devices, then over workers, and
every worker applies the same update; so clipping, loss scaling and short batches need nothing special. Does not own
the layout of buckets (`buckets.py`) or the optimizer's arithmetic (`optim`).
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Sequence

from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup
from mxtrain.config.components import stores
from mxtrain.core.params_file import Arrays
from mxtrain.data.fields import Array
from mxtrain.kvstore.buckets import Buckets
from mxtrain.kvstore.limbs import WideBlocks
from mxtrain.kvstore.store import open_store
from mxtrain.models.parameters import weights
from mxtrain.models.parameters.running_statistics import num_elements
from mxtrain.optim import optimizer_state, precision
from mxtrain.optim.sums.exact_gradients import memory
from mxtrain.optim.sums.gradients import compute_gradient_in
from mxtrain.optim.sums.grid import Grid
from mxtrain.optim.update import Update, unscale_and_clip
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray, Optimizer, Parameter, SummingStore


class LocalTrainer(mx.gluon.Trainer):
    """gluon's Trainer with a reduction that continues from this worker's devices to the other workers.

    Without buckets there are no other workers.
    """

    is_remote = False
    staleness: int | None = None  # all workers wait for each other, so no gradient is of older weights

    def __init__(
        self,
        parameters: Sequence[Parameter],
        optimizer: Optimizer,
        kvstore: str,
        gradient_buckets: Buckets | None = None,
        statistics_buckets: Buckets | None = None,
        wide_blocks: WideBlocks | None = None,
    ):
        super().__init__(list(parameters), optimizer, kvstore=kvstore, update_on_kvstore=False)
        self.gradient_buckets, self.statistics_buckets = gradient_buckets, statistics_buckets
        self.wide_blocks = wide_blocks

    @property
    def parameters(self) -> Sequence[Parameter]:
        found: list[Any] = self._params
        return found

    def start_reduce(self) -> None:
        super()._allreduce_grads()
        if self.gradient_buckets is not None:
            self.gradient_buckets.start_allreduce([first for first, *_ in self._gradients()])

    def finish_reduce(self, statistics: Sequence[NDArray] = ()) -> None:
        if self.gradient_buckets is None:
            return
        gradients = self._gradients()
        if statistics and self.statistics_buckets is not None:
            self.statistics_buckets.start_allreduce(statistics)
            self.statistics_buckets.finish_allreduce(statistics)
        self.gradient_buckets.finish_allreduce([first for first, *_ in gradients])
        self._copy_to_other_devices(gradients)

    def reduce_again(self, is_wide: Array, grid: Grid) -> None:
        if self.wide_blocks is None:
            return
        gradients = self._gradients()
        mx.nd.waitall()  # until sums, whose memory is written to, have been copied to other devices
        self.wide_blocks.sum_again(is_wide, grid, [memory(first) for first, *_ in gradients])
        self._copy_to_other_devices(gradients)

    def _copy_to_other_devices(self, gradients: Sequence[Sequence[NDArray]]) -> None:
        for first, *others in gradients:
            for other in others:
                first.copyto(other)

    def gradient_norm(self, gradients: Sequence[NDArray]) -> float:
        """Return the norm of the sums, which are the same on all workers."""
        return precision.l2_norm(gradients)

    def block_maxima(self) -> None:
        """Return nothing: gradient arrays hold the sums."""

    def show_sums(self) -> bool:
        """Do nothing: they do."""
        return True

    def apply(self, update: Update) -> None:
        unscale_and_clip(itertools.chain(*zip(*self._gradients())), update)  # device by device
        self.set_learning_rate(update.rate)
        self._scale = update.factor
        self.update(1)

    def skip_update(self) -> None:
        if self.gradient_buckets is not None:
            self.gradient_buckets.restore_residuals()

    def synchronize(self) -> None:
        """Do nothing: all workers have made the same updates."""

    def drop_residuals(self) -> None:
        if self.gradient_buckets is not None:
            self.gradient_buckets.drop_residuals()

    def optimizer_state(self) -> tuple[Arrays, dict[str, int]]:
        return optimizer_state.of_trainer(self), optimizer_state.update_counts(self)

    def load_optimizer_state(self, path: str, counts: dict[str, int]) -> None:
        optimizer_state.load(self, path, counts)

    def _gradients(self) -> list[list[NDArray]]:
        """Return each trained parameter's gradients, one for each device."""
        return [parameter.list_grad() for parameter in self._params if parameter.grad_req != "null"]

    def _allreduce_grads(self) -> None:
        self.start_reduce()
        self.finish_reduce()


def open_local(
    parameters: Sequence[Parameter],
    optimizer: Optimizer,
    kvstore: str,
    statistics: Sequence[Parameter],
    num_rows: int,
    threshold: float,
    group: WorkerGroup = SINGLE_WORKER,
    is_rounded: bool = False,
) -> LocalTrainer:
    """Return a trainer whose parameters and `statistics` are equal on all workers and devices; see `open_trainer`."""
    sums: tuple[Any, ...] = ()
    if stores.is_cluster(kvstore):
        kv = open_store(kvstore, group)
        sizes = [math.prod(each.shape) for each in parameters if each.grad_req != "null"]
        gradients = _open_gradients(kv, parameters, threshold, is_rounded)
        rows = _open_rows(kv, statistics, num_rows)
        sums = gradients, rows, WideBlocks(kv, sizes)
    trainer = LocalTrainer(parameters, optimizer, _device_store(kvstore), *sums)
    trainer._init_kvstore()
    trainer._init_params()
    mx.nd.waitall()
    return trainer


def _device_store(kvstore: str) -> str:
    """Return the store that sums over one worker's devices: `local` on the host, `device` on the devices."""
    return kvstore if not stores.is_cluster(kvstore) else "device" if "device" in kvstore else "local"


def _open_gradients(
    kv: SummingStore, parameters: Sequence[Parameter], threshold: float, is_rounded: bool
) -> Buckets:
    """Return buckets in which gradients are computed, after the first worker's weights were sent to all."""
    trained = [parameter for parameter in parameters if parameter.grad_req != "null"]
    gradients = _broadcast(kv, trained, "gradients", threshold)
    gradients.is_rounded = is_rounded  # from here on: the weights came as they are
    for parameter, view in zip(trained, gradients.views):
        compute_gradient_in(view, parameter)
    return gradients


def _open_rows(kv: SummingStore, statistics: Sequence[Parameter], num_rows: int) -> Buckets | None:
    """Return buckets for rows of all `statistics`, after the first worker's statistics were sent to all."""
    if not statistics:
        return None
    _broadcast(kv, statistics, "statistics")
    return Buckets(kv, [(num_rows, num_elements(statistics))], name="statistics-rows")


def _broadcast(
    kv: SummingStore, parameters: Sequence[Parameter], name: str, threshold: float = 0.0
) -> Buckets:
    """Return buckets for arrays like the parameters, which then hold the first worker's values everywhere."""
    arrays = [parameter.list_data()[0] for parameter in parameters]
    shapes, context = [array.shape for array in arrays], arrays[0].context if arrays else None
    buckets = Buckets(kv, shapes, threshold=threshold, name=name, context=context)
    buckets.broadcast(arrays)
    for parameter, array in zip(parameters, arrays):
        weights.put(parameter, array)
    return buckets
