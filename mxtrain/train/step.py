"""The training step: one optimizer update, from its micro-batches to the new weights.

`train_step` reads top to bottom: every micro-batch is seeded, run forward and backward, and its gradients added up;
then gradients are reduced over devices and workers, checked, and applied. The mapping of micro-batches to devices
changes nothing but the last bits of gradients, and where those are added exactly nothing at all; of their losses and
hits each has a row, added in order.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any, Callable, Iterator, Protocol, Sequence

import numpy as np

from mxtrain.cluster.worker_group import in_order, sum_arrays
from mxtrain.models import remat
from mxtrain.models.running_statistics import StepStatistics
from mxtrain.optim.exact_gradients import ExactAccumulator
from mxtrain.optim.gradients import GradientAccumulator
from mxtrain.optim.precision import LossScale
from mxtrain.runtime import mx
from mxtrain.train.parts import TrainingParts
from mxtrain.train.to_device import to_context


class MicroBatches(Protocol):
    """A worker's micro-batches of one step, made as they are asked for; their number is known before."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...


@dataclasses.dataclass(frozen=True)
class StepResult:
    """The numbers of a step, over the whole global batch; under dist_async over this worker's part of it."""

    loss: float
    accuracy: float
    num_samples: int
    gradient_norm: float  # of the mean gradient, before clipping
    applied: bool
    scale: LossScale
    staleness: int | None = None  # under dist_async: updates by others since the weights of these gradients


def train_step(
    parts: TrainingParts,
    batches: MicroBatches,
    release: Callable[[Any], None],
    step: int,
    rate: float,
    scale: LossScale,
) -> StepResult:
    """Update the weights once, by the mean gradient over the samples of all workers that make the step together.

    `batches` are this worker's, each given to `release` after its use. `step` counts from 0 and seeds them, `rate` is
    the learning rate, `scale` the loss scale before the step. A step that is not finite leaves the weights alone.
    """
    # ----------------------------------------------------------------------------------------------------
    # Forward and backward: as many micro-batches at a time as this worker has devices
    gradients, running = step_gradients(parts, scale.scale), step_statistics(parts)
    computed: dict[int, tuple[Any, Any, int]] = {}
    for wave, is_last in _waves(batches, parts.contexts):
        for batch, context in wave:
            gradients.before_backward(context)
            running.before_batch(context)
            scaled, loss_and_hits = forward(parts, batch, context, step, scale.scale)
            scaled.backward()
            remat.finish_backward(parts.net, context)
            computed[batch.request.position] = (*loss_and_hits, len(batch))
        if is_last:
            first_device = gradients.write_sums()
            parts.trainer.start_reduce()  # each gradient is on its way as soon as the backward pass has it
        # MXNet read the batches where the loader had put them, and a static graph changes running statistics
        # unseen by the engine: both are ours again only when everything has run.
        mx.nd.waitall()
        parts.group.report_progress()
        for batch, context in wave:
            running.after_batch(context, batch.request.position, len(batch))
            release(batch)

    # ----------------------------------------------------------------------------------------------------
    # Reduce over devices and workers
    rows, statistics = _reduce(parts, gradients, running, computed)
    loss, correct, num_samples = in_order(rows).tolist()
    if not num_samples:  # dist_async: a short step with nothing for this worker
        parts.trainer.skip_update()
        return StepResult(0.0, 0.0, 0, 0.0, True, scale)

    # ----------------------------------------------------------------------------------------------------
    # Update, unless a number is not finite
    per_sample = 1.0 / num_samples
    norm = parts.trainer.gradient_norm(first_device) / scale.scale * per_sample
    applied = math.isfinite(norm) and math.isfinite(loss)
    gradients.end_step(applied)
    if applied:
        running.apply(statistics, rows[:, 2])
        gradients.unscale(scale.scale)
        _update_weights(parts, gradients, rate, norm, per_sample)
    else:
        running.restore()
        parts.trainer.skip_update()
    mx.nd.waitall()
    means, staleness = (loss / num_samples, correct / num_samples), parts.trainer.staleness
    return StepResult(*means, int(num_samples), norm, applied, scale.updated(applied), staleness)


def _reduce(
    parts: TrainingParts,
    gradients: GradientAccumulator,
    running: StepStatistics,
    computed: dict[int, tuple[Any, Any, int]],
) -> tuple[Any, list[Any]]:
    """Finish the sums over devices and workers.

    Return summed loss, hits and number of samples of each micro-batch of the step, whoever has computed it, and the
    rows of running statistics. `computed` are this worker's, by position.
    """
    statistics = running.local_rows()
    parts.trainer.finish_reduce(statistics)
    rows = np.zeros((parts.num_micro_batches, 3))
    for position, (loss, hits, num_samples) in computed.items():
        rows[position] = float(loss.asscalar()), float(hits.asscalar()), num_samples
    if not isinstance(gradients, ExactAccumulator):
        return parts.step_group.sum(rows), statistics
    is_wide = gradients.wide_blocks()
    rows, num_wide = sum_arrays(parts.step_group, [rows, np.array([is_wide.sum()])])
    if num_wide:
        parts.trainer.reduce_again(is_wide, gradients.grid)
    return rows, statistics


def _update_weights(
    parts: TrainingParts, gradients: GradientAccumulator, rate: float, norm: float, per_sample: float
) -> None:
    """Clip the sum of the gradients, whose mean (times `per_sample`) has the length `norm`, and move the weights."""
    if parts.clip_value:
        gradients.clip(parts.clip_value / per_sample)
    shorten = min(1.0, parts.clip_norm / norm) if parts.clip_norm and norm else 1.0
    parts.trainer.apply(rate, shorten * per_sample)
    if parts.ema is not None:
        parts.ema.update()


def step_gradients(parts: TrainingParts, loss_scale: float) -> GradientAccumulator:
    """Return what adds up the gradients of the step that begins."""
    if parts.grid is not None:
        return ExactAccumulator(
            parts.trainer.parameters, parts.contexts, parts.grid, loss_scale, parts.step_group
        )
    return GradientAccumulator(parts.trainer.parameters, parts.contexts)


def step_statistics(parts: TrainingParts) -> StepStatistics:
    """Return the running statistics of the step that begins."""
    return StepStatistics(
        parts.net,
        parts.contexts,
        parts.sample_counter,
        num_micro_batches=parts.num_micro_batches,
        batch_size=parts.batch_size,
        num_workers=parts.step_group.world_size,
    )


def forward(parts: TrainingParts, batch: Any, context: Any, step: int, scale: float) -> Any:
    """Return the scaled losses of a micro-batch, to compute gradients from, and its summed loss and hits.

    MXNet may still be computing all of these when it returns.
    """
    mx.random.seed(micro_batch_seed(parts.seed, step, batch.request.position), ctx=context)
    pictures, labels = batch.arrays["data"], batch.arrays["label"]
    mixed_in = parts.mix(pictures, labels, step, batch.request.position)
    data, label = to_context(pictures, context), to_context(labels, context)
    others = None if mixed_in is None else [to_context(array, context) for array in mixed_in]
    if parts.needs_input_grad:
        data.attach_grad()
    with mx.autograd.record():
        # The loss is computed in float32 whatever the net runs in.
        output = parts.net(data).astype("float32", copy=False)
        losses = _losses(parts, data, output, label, others)
        scaled = losses * scale if scale != 1.0 else losses
    return scaled, (losses.sum(), (output.argmax(axis=1) == label).sum())


def _losses(parts: TrainingParts, data: Any, output: Any, label: Any, mixed_in: Any) -> Any:
    """Return every sample's loss: weighted over both labels where two samples were mixed, and partly a teacher's."""
    losses = parts.loss(output, label)
    if mixed_in is not None:
        other, share = mixed_in
        losses = (1 - share) * losses + share * parts.loss(output, other)
    return losses if parts.teacher is None else parts.teacher.add_loss(losses, output, data)


def _waves(batches: MicroBatches, contexts: Sequence[Any]) -> Iterator[tuple[list[tuple[Any, Any]], bool]]:
    """Yield as many batches at a time as there are devices, each with its device, and whether they are the last.

    A worker with no batch in the step gets one empty wave.
    """
    remaining, num_left = iter(batches), len(batches)
    while True:
        wave = list(itertools.islice(remaining, len(contexts)))
        num_left -= len(wave)
        is_last = num_left <= 0 or not wave
        yield [(batch, contexts[batch.request.position % len(contexts)]) for batch in wave], is_last
        if is_last:
            return


def micro_batch_seed(seed: int, step: int, position: int) -> int:
    """Return the random seed of a micro-batch, the same whoever computes it (splitmix64's mixing)."""
    mask = (1 << 64) - 1
    mixed = (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + position * 0x94D049BB133111EB + 1) & mask
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & mask
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
    return int((mixed ^ (mixed >> 31)) & 0x7FFFFFFF)
