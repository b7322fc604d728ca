"""The training step: one optimizer update, from its micro-batches to the new weights.

`train_step` reads top to bottom: every micro-batch is seeded, run forward and backward, and its gradients added up;
then gradients are reduced over devices and workers, checked, and applied. The mapping of micro-batches to devices
changes nothing but the last bits of gradients, and where those are added exactly nothing at all; of their losses and
hits each has a row, added in order.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Protocol, Sequence

import numpy as np

from mxtrain.cluster.worker_group import sum_arrays
from mxtrain.data.fields import Array
from mxtrain.data.loading.loader import Batch
from mxtrain.models import remat
from mxtrain.models.parameters.running_statistics import StepStatistics
from mxtrain.optim.precision import LossScale
from mxtrain.optim.sums.exact_gradients import ExactAccumulator
from mxtrain.optim.sums.gradients import GradientAccumulator
from mxtrain.runtime import mx
from mxtrain.tasks.task import Outcome
from mxtrain.train.context import TrainContext
from mxtrain.train.net import first_pass
from mxtrain.train.net.to_device import to_device
from mxtrain.train.step_end import Reduced, StepResult, StepRow, finish_step
from mxtrain.train.telemetry import barriers

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, Device, NDArray


class MicroBatches(Protocol):
    """A worker's micro-batches of one step, made as they are asked for; their number is known before."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Batch]: ...

    def peek(self, count: int) -> list[Batch]: ...


def train_step(
    context: TrainContext,
    batches: MicroBatches,
    release: Callable[[Batch], None],
    step: int,
    rate: float,
    scale: LossScale,
) -> StepResult:
    """Update the weights once, by the gradient of all workers' loss: its sum, divided by the sum of its weight.

    `batches` are this worker's, each given to `release` after its use. `step` counts from 0 and seeds them, `rate` is
    the learning rate, `scale` the loss scale before the step. A step that is not finite, or of no weight, leaves all
    as it was.
    """
    gradients, running = step_gradients(context, scale.scale), step_statistics(context)
    computed: dict[int, StepRow] = {}

    # Forward and backward: as many micro-batches at a time as this worker has devices
    for wave, is_last in _waves(batches, context.devices):
        context.clock.lap("load")
        for batch, device in wave:
            gradients.before_backward(device)
            if context.tables is not None:
                context.tables.begin(device)
            running.before_batch(device)
            is_timed = context.clock.is_sampling and batch is wave[-1][0]
            compute = functools.partial(
                compute_micro_batch, context, batch, device, step, scale.scale, is_timed
            )
            computed[batch.request.position] = first_pass.computed(context, device, running, compute)
        if context.tables is not None:
            context.tables.ask(batches.peek(len(context.devices)), is_next_step=is_last)
        if is_last:
            first_device = start_reduce(context, gradients)
        # MXNet read the batches where the loader had put them, and a static graph changes running statistics
        # unseen by the engine: both are ours again only when everything has run.
        mx.nd.waitall()
        context.group.report_progress()
        for batch, device in wave:
            running.after_batch(device, batch.request.position, len(batch))
            if context.tables is not None:
                context.tables.push(device, batch.request.position)
            release(batch)
        if not is_last:
            context.clock.lap("backward")

    # Reduce over devices and workers
    rows, statistics = reduce_step(context, gradients, running, computed)
    context.clock.lap("synchronize")
    reduced = Reduced(rows, statistics, first_device)
    return finish_step(context, gradients, running, reduced, step, rate, scale)


def step_gradients(context: TrainContext, loss_scale: float) -> GradientAccumulator:
    """Return what adds up the gradients of the step that begins."""
    if context.grid is not None:
        return ExactAccumulator(
            context.trainer.parameters, context.devices, context.grid, loss_scale, context.step_group
        )
    return GradientAccumulator(context.trainer.parameters, context.devices)


def step_statistics(context: TrainContext) -> StepStatistics:
    """Return the running statistics of the step that begins."""
    return StepStatistics(
        context.moving,
        context.devices,
        context.sample_counter,
        num_micro_batches=context.job.plan.batch.num_micro_batches,
        batch_size=context.job.plan.batch.batch_size,
        num_workers=context.step_group.world_size,
    )


def _waves(
    batches: MicroBatches, devices: Sequence[Device]
) -> Iterator[tuple[list[tuple[Batch, Device]], bool]]:
    """Yield as many batches at a time as there are devices, each with its device, and whether they are the last.

    A worker with no batch in the step gets one empty wave.
    """
    remaining, num_left = iter(batches), len(batches)
    while True:
        wave = list(itertools.islice(remaining, len(devices)))
        num_left -= len(wave)
        is_last = num_left <= 0 or not wave
        yield [(batch, devices[batch.request.position % len(devices)]) for batch in wave], is_last
        if is_last:
            return


def compute_micro_batch(
    context: TrainContext, batch: Batch, device: Device, step: int, scale: float, is_timed: bool
) -> StepRow:
    """Run forward and backward on a micro-batch, and return its row."""
    run = functools.partial(forward, context, batch, device, step, scale)
    scaled, row = barriers.time_stages(run, context.net, context.clock) if is_timed else run()
    # Before the next forward pass: MXNet 1.9.1's LSTMs write beyond their memory, if one of another length lies
    # between the two.
    scaled.backward()
    remat.finish_backward(context.net, device)
    return row


def forward(
    context: TrainContext, batch: Batch, device: Device, step: int, scale: float
) -> tuple[NDArray, StepRow]:
    """Return the scaled losses of a micro-batch, to compute gradients from, and its row."""
    position = batch.request.position
    mx.random.seed(micro_batch_seed(context.run.optim.seed, step, position), ctx=device)
    prepared = context.prepare(batch.arrays, step, position)
    arrays = {name: to_device(array, device) for name, array in prepared.items()}
    net = InputGradients(context.net) if context.needs_input_grad else context.net
    with mx.autograd.record():
        outcome = context.forward(net, arrays)
        scaled = outcome.losses * scale if scale != 1.0 else outcome.losses
    return scaled, row_of(context, outcome, len(batch))


def row_of(context: TrainContext, outcome: Outcome, num_samples: int) -> StepRow:
    """Return the row of a micro-batch, of what a forward pass has come to."""
    pairs = [outcome.means[name] for name in context.task.step_means]
    return [outcome.losses.sum(), outcome.weight, num_samples, *itertools.chain(*pairs)]


def micro_batch_seed(seed: int, step: int, position: int) -> int:
    """Return the random seed of a micro-batch, the same whoever computes it (splitmix64's mixing)."""
    mask = (1 << 64) - 1
    mixed = (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + position * 0x94D049BB133111EB + 1) & mask
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & mask
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
    return int((mixed ^ (mixed >> 31)) & 0x7FFFFFFF)


@dataclasses.dataclass(frozen=True)
class InputGradients:
    """A net as a function that has gradients computed for its inputs too."""

    block: Block

    def __call__(self, *inputs: NDArray) -> Any:
        for array in inputs:
            array.attach_grad()
        return self.block(*inputs)


def start_reduce(context: TrainContext, gradients: GradientAccumulator) -> list[NDArray]:
    """Start the sums over devices and workers, each as soon as the backward pass has its gradient; wait for that pass.

    Return the first device's gradients.
    """
    first_device = gradients.write_sums()
    # Summed in place: a number of the gradient that is computed last is copied, to wait for it and not for its sum.
    is_alone = context.step_group.world_size * len(context.devices) == 1
    last = [each for each in first_device if each.stype == "default" and not is_alone][:1]
    own = [mx.nd.slice(each, begin=[0] * each.ndim, end=[1] * each.ndim) for each in last]
    context.trainer.start_reduce()
    if own:
        own[0].wait_to_read()
    else:
        mx.nd.waitall()
    context.clock.lap("backward")
    return first_device


def reduce_step(
    context: TrainContext,
    gradients: GradientAccumulator,
    running: StepStatistics,
    computed: dict[int, StepRow],
) -> tuple[Array, list[NDArray]]:
    """Finish the sums over devices and workers.

    Return the row of each micro-batch of the step, whoever has computed it, and the rows of running statistics.
    `computed` are this worker's, by position.
    """
    statistics = running.local_rows()
    context.trainer.finish_reduce(statistics)
    rows = in_numbers(context, computed)
    if not isinstance(gradients, ExactAccumulator):
        return context.step_group.sum(rows), statistics
    is_wide = gradients.wide_blocks()
    rows, num_wide = sum_arrays(context.step_group, [rows, np.array([is_wide.sum()])])
    if num_wide:
        context.trainer.reduce_again(is_wide, gradients.grid)
    return rows, statistics


def in_numbers(context: TrainContext, computed: Mapping[int, StepRow]) -> Array:
    """Return the rows of this worker's micro-batches, by their positions, among zeros in the place of others'."""
    rows = np.zeros((context.job.plan.batch.num_micro_batches, 3 + 2 * len(context.task.step_means)))
    for position, row in computed.items():
        rows[position] = [number(value) for value in row]
    return rows


def number(value: Any) -> float:
    """Return a single number, MXNet's once it is computed."""
    return float(value.asscalar() if isinstance(value, mx.nd.NDArray) else value)
