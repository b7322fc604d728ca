"""The training step of a net whose layers lie on several devices (`--stages`): a pipeline of micro-batches.

It does what `train/step.py` does, with more than one micro-batch under way. MXNet's engine computes on each device
whatever has all that it needs, so it is enough to call for the next micro-batches before the first one has ended: as
many as there are stages, which is what a device then holds activations of. All numbers have the bits of one device.
"""

from __future__ import annotations

import collections
import functools
from typing import Callable, NamedTuple

from mxtrain.data.loading.loader import Batch
from mxtrain.models.parameters.running_statistics import StepStatistics
from mxtrain.models.stages import StagedNet
from mxtrain.optim.precision import LossScale
from mxtrain.optim.sums.exact_gradients import ExactAccumulator
from mxtrain.optim.sums.gradients import GradientAccumulator
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray
from mxtrain.train.context import TrainContext
from mxtrain.train.net import first_pass
from mxtrain.train.step import (
    MicroBatches,
    compute_micro_batch,
    micro_batch_seed,
    reduce_step,
    start_reduce,
    step_statistics,
)
from mxtrain.train.step_end import Reduced, StepResult, StepRow, finish_step


class UnderWay(NamedTuple):
    """A micro-batch that is being computed: when `ends` are there it has been, and has moved its `statistics`."""

    batch: Batch
    ends: list[NDArray]
    statistics: dict[str, NDArray]


def staged_step(
    context: TrainContext,
    batches: MicroBatches,
    release: Callable[[Batch], None],
    step: int,
    rate: float,
    scale: LossScale,
) -> StepResult:
    """Update the weights once, as `train_step` does, of which the arguments and the result are."""
    net = context.net
    assert isinstance(net, StagedNet)
    gradients, running = _step_gradients(context, scale.scale), step_statistics(context)
    computed: dict[int, StepRow] = {}
    last_device, num_stages = context.devices[0], len(set(net.devices))
    under_way: collections.deque[UnderWay] = collections.deque()

    # Forward and backward: as many micro-batches at a time as there are stages
    for number, batch in enumerate(batches):
        if len(under_way) == num_stages:
            _finish(context, running, under_way.popleft(), release)
        context.clock.lap("load")
        position = batch.request.position
        gradients.before_backward(last_device)
        # MXNet's engine does not see that a backward pass moves statistics: each micro-batch has its own.
        net.lent = running.lent(last_device)
        _seed_gpus(net, micro_batch_seed(context.run.optim.seed, step, position))
        is_timed = context.clock.is_sampling and number == len(batches) - 1
        compute = functools.partial(
            compute_micro_batch, context, batch, last_device, step, scale.scale, is_timed
        )
        computed[position] = first_pass.computed(context, last_device, running, compute)
        under_way.append(UnderWay(batch, _ends(context, has_all=bool(net.lent)), net.lent))
        net.lent = {}
    first_gradients = start_reduce(context, gradients)
    while under_way:
        _finish(context, running, under_way.popleft(), release)
    mx.nd.waitall()

    # Reduce over workers
    rows, statistics = reduce_step(context, gradients, running, computed)
    context.clock.lap("synchronize")
    reduced = Reduced(rows, statistics, first_gradients)
    return finish_step(context, gradients, running, reduced, step, rate, scale)


def _step_gradients(context: TrainContext, loss_scale: float) -> GradientAccumulator:
    parameters, group = context.trainer.parameters, context.step_group
    if context.grid is None:
        return GradientAccumulator(parameters, context.devices)
    return ExactAccumulator(parameters, context.devices, context.grid, loss_scale, group, has_views=True)


def _seed_gpus(net: StagedNet, seed: int) -> None:
    """Seed the random numbers of GPUs, each its own; all CPUs draw from one stream, which the step has seeded."""
    for number, device in enumerate(dict.fromkeys(net.devices)):
        if device.device_type == "gpu":
            mx.random.seed((seed + number) % (1 << 31), ctx=device)


def _ends(context: TrainContext, has_all: bool) -> list[NDArray]:
    """Return a number of gradients that the backward pass computes: of all, or of each stage's first layer."""
    gradients = [each.list_grad()[0] for each in context.trainer.parameters if each.grad_req != "null"]
    if not has_all:
        gradients = list({each.context: each for each in reversed(gradients)}.values())
    return [mx.nd.slice(each, begin=[0] * each.ndim, end=[1] * each.ndim) for each in gradients]


def _finish(
    context: TrainContext, running: StepStatistics, done: UnderWay, release: Callable[[Batch], None]
) -> None:
    """Wait for a micro-batch, and give back what it was made of."""
    for end in done.ends:
        end.wait_to_read()
    if context.needs_input_grad:  # statistics move after all gradients of weights are there
        mx.nd.waitall()
    running.take_back(done.statistics, done.batch.request.position, len(done.batch))
    release(done.batch)
    context.group.report_progress()
    context.clock.lap("backward")
