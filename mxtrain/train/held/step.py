"""The training step of a net of which this worker holds one segment at a time (`--hold layers`).

It does what `train/step.py` does, in another order: all micro-batches of the step go through one segment after the
other, and the sums of gradients go to the owners of the weights, who apply them. All numbers have the same bits.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Callable, Sequence

from mxtrain.cluster.worker_group import in_order
from mxtrain.data.loading.loader import Batch
from mxtrain.models.held.held_net import HeldNet
from mxtrain.models.parameters.running_statistics import StepStatistics
from mxtrain.optim.precision import LossScale
from mxtrain.runtime import mx
from mxtrain.train.context import TrainContext
from mxtrain.train.held.gradients import LargestGradients, PushedGradients, StepGradients, TrainedParameters
from mxtrain.train.held.micro_batches import MicroBatch, opened
from mxtrain.train.held.passes import Passes
from mxtrain.train.held.statistics import SegmentStatistics
from mxtrain.train.held.trainer import HeldTrainer
from mxtrain.train.step import (
    NUM_SAMPLES,
    MicroBatches,
    StepResult,
    StepRow,
    in_numbers,
    means_of,
    step_statistics,
)


def held_step(
    context: TrainContext,
    batches: MicroBatches,
    release: Callable[[Batch], None],
    step: int,
    rate: float,
    scale: LossScale,
) -> StepResult:
    """Update the weights once, as `train_step` does, of which the arguments and the result are."""
    net, trainer = _parts(context)
    running = step_statistics(context)
    trained = TrainedParameters(trainer.parameters, net.segments)
    micro_batches = opened(context, batches, release, step)
    if context.grid is not None:
        context.grid.start_step(scale.scale)
        if context.grid.exponents is None:
            _learn(context, trained, running, micro_batches, scale.scale)

    # Forward and backward: all micro-batches through one segment after the other
    gradients = PushedGradients(trained, trainer.traffic, context.grid, context.step_group.world_size > 1)
    computed = _pass(context, gradients, running, micro_batches, scale.scale)
    gradients.finish()

    # Reduce over workers
    statistics = running.local_rows()
    trainer.finish_reduce(statistics)
    rows = context.step_group.sum(in_numbers(context, computed))
    sums = trainer.sums()
    context.clock.lap("synchronize")

    # Update, unless a number is not finite
    loss, weight, num_samples, *of_means = in_order(rows).tolist()
    per_weight = 1.0 / weight if weight else math.nan  # without any the step is not applied
    norm = trainer.gradient_norm() / scale.scale * per_weight
    applied = all(map(math.isfinite, (norm, loss, weight)))
    if context.grid is not None:
        context.grid.follow(sums.maxima, applied)
    if applied:
        running.apply(statistics, rows[:, NUM_SAMPLES])
        clip_norm, clip_value = context.run.optim.clip_norm, context.run.optim.clip_value
        shorten = min(1.0, clip_norm / norm) if clip_norm and norm else 1.0
        trainer.apply(rate, shorten * per_weight, 1.0 / scale.scale, clip_value / per_weight)
    else:
        running.restore()
        trainer.skip_update()
    mx.nd.waitall()
    context.clock.lap("update")
    mean_loss, after = (loss / weight, scale.updated(applied)) if weight else (math.nan, scale)
    return StepResult(mean_loss, int(num_samples), weight, norm, applied, after, means_of(context, of_means))


def _parts(context: TrainContext) -> tuple[HeldNet, HeldTrainer]:
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

    All of them have to be known before any is rounded, and there is never more than a segment's. A collective.
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
    net, _ = _parts(context)
    statistics = SegmentStatistics(running, net.segments, micro_batches, context.devices[0])
    computed = Passes(context, net, micro_batches, gradients, statistics, scale).run()
    if is_noted:
        statistics.finish()
    return computed
