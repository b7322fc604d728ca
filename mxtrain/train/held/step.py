"""The training step of a net of which this worker holds one segment at a time (`--hold layers`).

It does what `train/step.py` does, in another order: all micro-batches of the step go through one segment after the
other, and the sums of gradients go to the owners of the weights, who apply them. All numbers have the same bits.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Sequence

from mxtrain.data.loading.loader import Batch
from mxtrain.models.parameters.running_statistics import StepStatistics
from mxtrain.optim.precision import LossScale
from mxtrain.train.context import TrainContext
from mxtrain.train.held.gradients import LargestGradients, PushedGradients, StepGradients, TrainedParameters
from mxtrain.train.held.head_passes import HeadPasses
from mxtrain.train.held.held_net import HeldNet
from mxtrain.train.held.micro_batches import MicroBatch, opened
from mxtrain.train.held.passes import Passes
from mxtrain.train.held.statistics import SegmentStatistics
from mxtrain.train.held.trainer import HeldTrainer
from mxtrain.train.net import first_pass
from mxtrain.train.step import MicroBatches, in_numbers, step_statistics
from mxtrain.train.step_end import Reduced, StepResult, StepRow, finish_step


def held_step(
    context: TrainContext,
    batches: MicroBatches,
    release: Callable[[Batch], None],
    step: int,
    rate: float,
    scale: LossScale,
) -> StepResult:
    """Update the weights once, as `train_step` does, of which the arguments and the result are."""
    net, trainer = _held(context)
    running = step_statistics(context)
    trained = TrainedParameters(trainer.parameters, net.segments)
    micro_batches = opened(context, batches, release, step)
    context.clock.lap("load")
    if context.grid is not None:
        context.grid.start_step(scale.scale)
        if context.grid.exponents is None:
            _learn(context, trained, running, micro_batches, scale.scale)

    # Forward and backward: all micro-batches through one segment after the other
    gradients = PushedGradients(trained, trainer, context.grid, context.step_group.world_size > 1)
    computed = _pass(context, gradients, running, micro_batches, scale.scale)
    gradients.push_others()

    # Reduce over workers
    statistics = running.local_rows()
    trainer.finish_reduce(statistics)
    rows = context.step_group.sum(in_numbers(context, computed))
    context.clock.lap("synchronize")
    return finish_step(context, gradients, running, Reduced(rows, statistics, []), step, rate, scale)


def _held(context: TrainContext) -> tuple[HeldNet, HeldTrainer]:
    net, trainer = context.net, context.trainer
    assert isinstance(net, HeldNet) and isinstance(trainer, HeldTrainer)
    return net, trainer


def _learn(
    context: TrainContext,
    trained: TrainedParameters,
    running: StepStatistics,
    micro_batches: Sequence[MicroBatch],
    scale: float,
) -> None:
    """Let all workers take the grid from the gradients of worker 0's first micro-batch, which it computes for that.

    All exponents have to be known before any gradient is rounded, and those of one segment at a time are here. A
    collective.
    """
    assert context.grid is not None
    largest = LargestGradients(trained, context.grid)
    if context.step_group.rank == 0:
        first = [dataclasses.replace(each, seeds={}) for each in micro_batches[:1]]
        _pass(context, largest, running, first, scale, is_noted=False)
        running.restore()
    context.grid.learn(context.step_group.sum(largest.maxima))


def _pass(
    context: TrainContext,
    gradients: StepGradients,
    running: StepStatistics,
    micro_batches: Sequence[MicroBatch],
    scale: float,
    is_noted: bool = True,
) -> dict[int, StepRow]:
    """Compute these micro-batches; return their rows. A worker without any computes nothing."""
    if not micro_batches:
        return {}
    net, _ = _held(context)
    statistics = SegmentStatistics(running, net.segments, micro_batches, context.devices[0])
    kind_of_passes = Passes if net.head is None else HeadPasses
    passes = kind_of_passes(context, net, micro_batches, gradients, statistics, scale)
    computed = first_pass.computed(context, context.devices[0], running, passes.run)
    if is_noted:
        statistics.finish()
    return computed
