"""The end of a step, however its gradients were computed and wherever their sums are: the update, or none.

Owns what a step returns, and the decision on it, which all workers make alike.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, List, Mapping, NamedTuple, Protocol, Sequence

from mxtrain.cluster.worker_group import in_order
from mxtrain.data.fields import Array
from mxtrain.models.parameters.running_statistics import StepStatistics
from mxtrain.optim.precision import LossScale
from mxtrain.optim.update import Update
from mxtrain.runtime import mx
from mxtrain.train.context import TrainContext
from mxtrain.train.telemetry import layer_metrics

if TYPE_CHECKING:
    from mxtrain.runtime.types import NDArray

# Of a micro-batch: the sum of its losses, its weight, its number of samples, and a sum and a count for each of the
# task's `step_means`. MXNet may still be computing them.
StepRow = List[Any]
NUM_SAMPLES = 2  # the place in it


@dataclasses.dataclass(frozen=True)
class StepResult:
    """The numbers of a step, over the whole global batch; under dist_async over this worker's part of it."""

    loss: float  # the mean, by weight
    num_samples: int
    weight: float
    gradient_norm: float  # of the mean gradient, before clipping
    applied: bool
    scale: LossScale
    means: Mapping[str, float] = dataclasses.field(default_factory=dict)  # the task's, by name
    staleness: int | None = None  # under dist_async: updates by others since the weights of these gradients
    layers: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of a sampled step


class Reduced(NamedTuple):
    """The numbers that a step has come to, over all workers."""

    rows: Array  # of each micro-batch
    statistics: list[NDArray]  # the rows of running statistics
    gradients: Sequence[NDArray]  # those of the first device


class Ending(Protocol):
    """The end of a step, for whoever adds up its gradients."""

    def end_step(self, is_applied: bool, maxima: Array | None = None) -> None:
        """See `GradientAccumulator.end_step`."""
        ...


def finish_step(
    context: TrainContext,
    gradients: Ending,
    running: StepStatistics,
    reduced: Reduced,
    step: int,
    rate: float,
    scale: LossScale,
) -> StepResult:
    """Update weights and running statistics by what a step has come to, unless a number is not finite."""
    rows = reduced.rows
    loss, weight, num_samples, *sums = in_order(rows).tolist()
    if not num_samples:  # dist_async: a short step with nothing for this worker
        context.trainer.skip_update()
        return StepResult(0.0, 0, 0.0, 0.0, True, scale, dict.fromkeys(context.task.step_means, 0.0))
    per_weight = 1.0 / weight if weight else math.nan  # without any the step is not applied
    norm = context.trainer.gradient_norm(reduced.gradients) / scale.scale * per_weight
    applied = all(map(math.isfinite, (norm, loss, weight)))
    gradients.end_step(applied, context.trainer.block_maxima())
    with layer_metrics.measured(context, per_weight / scale.scale) as layers:
        if applied:
            running.apply(reduced.statistics, rows[:, NUM_SAMPLES])
            _update_weights(context, step, _update_of(context, rate, norm, per_weight, scale.scale))
        else:
            running.restore()
            context.trainer.skip_update()
        mx.nd.waitall()
    mean_loss, after = (loss / weight, scale.updated(applied)) if weight else (math.nan, scale)
    means, staleness = _means(context, sums), context.trainer.staleness
    return StepResult(mean_loss, int(num_samples), weight, norm, applied, after, means, staleness, layers)


def _update_of(context: TrainContext, rate: float, norm: float, per_weight: float, scale: float) -> Update:
    """Return what becomes of the sums of scaled gradients, whose mean (times `per_weight`) has the length `norm`."""
    clip_norm, clip_value = context.run.optim.clip_norm, context.run.optim.clip_value
    shorten = min(1.0, clip_norm / norm) if clip_norm and norm else 1.0
    return Update(rate, shorten * per_weight, 1.0 / scale, clip_value / per_weight)


def _update_weights(context: TrainContext, step: int, update: Update) -> None:
    """Move the weights, and what follows them; at the end of a run with --average only running statistics move."""
    companions = context.companions.values()
    if any(companion.holds_weights(step) for companion in companions):
        context.trainer.skip_update()
        return
    context.trainer.apply(update)
    for companion in companions:
        companion.after_update()


def _means(context: TrainContext, sums: Sequence[float]) -> dict[str, float]:
    """Return the task's means of the step, from a sum and a count for each."""
    pairs = zip(context.task.step_means, sums[::2], sums[1::2])
    return {name: total / count if count else math.nan for name, total, count in pairs}
