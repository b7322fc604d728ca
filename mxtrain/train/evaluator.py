"""The evaluations of a training run: when one is due, and what becomes of its numbers.

Owns the record and the score. How a net is evaluated is `evaluation.py`'s.
"""

from __future__ import annotations

import math
from typing import Callable

from mxtrain.core.errors import Stop
from mxtrain.report.sinks.record import Record
from mxtrain.tasks.metrics import metric_selection
from mxtrain.train import nonfinite_errors
from mxtrain.train.context import TrainContext
from mxtrain.train.evaluation import evaluate
from mxtrain.train.net import build_net
from mxtrain.train.state import TrainState


class Evaluator:
    """Evaluates the net on the validation set, if the job has one, at the end of every epoch and between."""

    def __init__(
        self,
        context: TrainContext,
        stop_requests: list[Stop],
        write: Callable[[Record], None],
        on_samples: Callable[[int, int], None],
    ):
        self._context, self._job = context, context.job
        self._stop_requests, self._write, self._on_samples = stop_requests, write, on_samples

    def is_time(self, step: int) -> bool:
        """Return whether the run is evaluated after so many steps: where epochs end, and by --evaluate-steps."""
        every = self._job.run.output.evaluate_steps
        is_between = every > 0 and step > 0 and step % every == 0
        is_end = self._job.plan.length.is_epoch_end(step)
        return self._job.val_set is not None and (is_between or is_end)

    def is_due(self, state: TrainState) -> bool:
        """Return whether `state` has to be evaluated before the run goes on."""
        return state.score is None and self.is_time(state.step)

    def evaluate(self, state: TrainState) -> TrainState:
        """Return `state` with its score, or as it is where a stop request of any worker cut the evaluation short.

        The averaged weights are evaluated where the run keeps some. A collective; raises Diverged where the loss is no
        number.
        """
        context, val_set = self._context, self._job.val_set
        assert val_set is not None
        with context.for_evaluation():
            with build_net.standing_still(context.net, self._job.run, context.task.objects):
                evaluation = evaluate(
                    *(context.task, context.plain_forward, context.net, val_set, context.devices),
                    stop_requests=self._stop_requests,
                    group=context.group,
                    step=state.step,
                    on_samples=self._on_samples,
                )
            if evaluation is None:
                return state
            scores, seconds = evaluation.scores, context.clock.lap_apart("evaluate")
            place = {"step": state.step, "epoch": self._job.plan.length.epoch_of(state.step)}
            self._write({"kind": "eval", **place, **scores, "seconds": seconds})
            for record in evaluation.records:
                self._write({"kind": record["kind"], **place, **record})
            if not math.isfinite(scores["val_loss"]):
                raise nonfinite_errors.bad_evaluation(context, val_set, state, scores["val_loss"])
        score = context.metrics.score
        return state.with_score(metric_selection.value_of(score, scores), score.is_lower_better)
