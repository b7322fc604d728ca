"""The sums over workers of a step's gradients and running statistics, in the arrays that a worker computes them in.

Owns which buckets there are: a set for each device that gradients are computed on, one for rows of statistics. How
buckets travel is `buckets.py`'s; who moves the weights is the trainers'.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Sequence

from mxtrain import native
from mxtrain.cluster.worker_group import WorkerGroup
from mxtrain.data.fields import Array
from mxtrain.kvstore.buckets import Buckets
from mxtrain.kvstore.limbs import WideBlocks
from mxtrain.kvstore.store import open_store
from mxtrain.models.parameters import weights
from mxtrain.models.parameters.running_statistics import num_elements
from mxtrain.optim.sums import squares
from mxtrain.optim.sums.block_tables import Rounding
from mxtrain.optim.sums.gradients import compute_gradient_in
from mxtrain.optim.sums.grid import Grid
from mxtrain.optim.sums.squares import Measured
from mxtrain.runtime import mx
from mxtrain.runtime.memory import memory
from mxtrain.runtime.types import NDArray, Parameter, SummingStore


class OnDevice(NamedTuple):
    """The gradients that are computed on one device, by their numbers among all, and their buckets."""

    numbers: Sequence[int]
    buckets: Buckets

    def among(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        """Return those of all arrays that are its own."""
        return [arrays[number] for number in self.numbers]


class WorkerSums(NamedTuple):
    """The sums of a step over all workers."""

    devices: Sequence[OnDevice]
    statistics: Buckets | None  # none: no statistics move
    wide_blocks: WideBlocks
    rounding: Rounding | None = None  # by who adds them; none: gradients are on their grid when they are sent

    def start(self, gradients: Sequence[NDArray]) -> None:
        """Send the gradients as they will be once all pending computation of them is done."""
        if self.rounding is not None:
            self.rounding.start()
        for each in reversed(self.devices):  # as a backward pass comes to them
            each.buckets.start_allreduce(each.among(gradients))

    def finish(self, gradients: Sequence[NDArray], statistics: Sequence[NDArray] = ()) -> None:
        """Replace what was sent, and `statistics`, by their sums."""
        if statistics and self.statistics is not None:
            self.statistics.start_allreduce(statistics)
            self.statistics.finish_allreduce(statistics)
        for each in reversed(self.devices):
            each.buckets.finish_allreduce(each.among(gradients))

    def measure(self, gradients: Sequence[NDArray]) -> Measured:
        """Return what the sums come to, which `gradients` hold."""
        if self.rounding is None:
            return squares.measure(gradients)
        for each in self.devices:
            each.buckets.wait()
        return self.rounding.measured()

    def sum_again(self, is_wide: Array, grid: Grid, gradients: Sequence[NDArray]) -> None:
        """Replace the blocks of sums that are wide on any worker by sums of all their digits."""
        self.wide_blocks.sum_again(is_wide, grid, list(map(memory, gradients)))

    def restore_residuals(self) -> None:
        """Restore the residuals from before the last sums, which are not applied."""
        for each in self.devices:
            each.buckets.restore_residuals()

    def drop_residuals(self) -> None:
        """Set all residuals to zero."""
        for each in self.devices:
            each.buckets.drop_residuals()


def open_sums(
    kvstore: str,
    parameters: Sequence[Parameter],
    statistics: Sequence[Parameter],
    num_rows: int,
    threshold: float,
    group: WorkerGroup,
    is_rounded: bool,
    grid: Grid | None = None,
) -> WorkerSums:
    """Return the sums of the store `kvstore`, after the first worker's weights and statistics were sent to all.

    From here on the gradients of `parameters` are computed in their buckets. `statistics` have `num_rows` rows; a
    `threshold` compresses gradients; `is_rounded` they travel between hosts in bfloat16. On a `grid` they are summed,
    and where all workers find that it can be so, left to be rounded to it by who adds them.
    """
    kv = open_store(kvstore, group)
    trained = [each for each in parameters if each.grad_req != "null"]
    devices = [
        OnDevice(
            numbers, _open_gradients(kv, [trained[each] for each in numbers], name, threshold, is_rounded)
        )
        for name, numbers in _by_device(trained)
    ]
    rows = _open_rows(kv, statistics, num_rows)
    wide_blocks = WideBlocks(kv, [math.prod(each.shape) for each in trained])
    return WorkerSums(devices, rows, wide_blocks, _open_rounding(devices, grid, group))


def _open_rounding(devices: Sequence[OnDevice], grid: Grid | None, group: WorkerGroup) -> Rounding | None:
    """Return the rounding to a grid by who adds gradients, where all workers can leave it to them."""
    if grid is None:
        return None
    is_possible = grid.in_place and len(devices) == 1 and native.OPERATORS is not None
    rounding = devices[0].buckets.rounding(grid) if is_possible else None
    if group.sum([rounding is None])[0]:
        return None
    grid.is_left_to_sums = rounding is not None
    return rounding


def _by_device(trained: Sequence[Parameter]) -> list[tuple[str, list[int]]]:
    """Return the numbers of the parameters on each first device, and the name of its buckets."""
    devices = list(dict.fromkeys(each.list_data()[0].context for each in trained)) or [mx.cpu()]
    names = ["gradients", *(f"gradients-of-stage-{number}" for number in range(1, len(devices)))]
    return [
        (name, [number for number, each in enumerate(trained) if each.list_data()[0].context == device])
        for name, device in zip(names, devices)
    ]


def _open_gradients(
    kv: SummingStore, trained: Sequence[Parameter], name: str, threshold: float, is_rounded: bool
) -> Buckets:
    """Return buckets in which gradients are computed, after the first worker's weights were sent to all."""
    gradients = _broadcast(kv, trained, name, threshold)
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
