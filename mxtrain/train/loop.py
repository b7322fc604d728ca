"""A run from its first step to its last: `run` tells it top to bottom.

Owns the order of events. What happens inside a step is `step.py`'s, what a batch is made of `data`'s, and what a
checkpoint holds `state.py`'s.
"""

from __future__ import annotations

import logging
import math
import time
from pathlib import Path
from typing import Any, Callable

from mxtrain.checkpoint.directory import Checkpoint, Snapshot
from mxtrain.checkpoint.input_identity import InputIdentity
from mxtrain.checkpoint.saver import Saver
from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup
from mxtrain.config import Run
from mxtrain.core.errors import Diverged, Stop
from mxtrain.optim import early_stop, schedules
from mxtrain.optim.ema import with_averages
from mxtrain.report.writers import Record, open_sinks
from mxtrain.train import input_pipeline, signals, state
from mxtrain.train import loss_alarm as alarms
from mxtrain.train.diagnose import diverged, diverged_in_evaluation, lost_weights
from mxtrain.train.evaluate import evaluate
from mxtrain.train.loss_alarm import Alarm
from mxtrain.train.state import Parts, Progress
from mxtrain.train.step import Outcome, train_step

logger = logging.getLogger(__name__)

STEPS_APART = 10  # that workers may be from each other where they do not wait at every step


def run(
    run: Run,
    train: Any,
    val: Any | None,
    identity: InputIdentity,
    resume: Checkpoint | None,
    stop_requests: list[Stop],
    group: WorkerGroup = SINGLE_WORKER,
    begin: Callable[[], None] = lambda: None,
) -> None:
    """Train as `run` says on the records `train`, which `identity` identifies, from the beginning or a checkpoint.

    All workers of `group` do the same at the same time; those that write keep what comes of it. Before anything does,
    with the first record, comes the time to `begin`.
    """
    out, num_classes = Path(run.output.out), len(identity.class_names)
    steps_per_epoch, num_steps = schedules.run_length(run.optim, len(train))
    rate_of = schedules.rate_function(run.optim, steps_per_epoch, num_steps)
    parts = state.build(run, num_classes, group, is_fresh=resume is None)
    progress = state.restore(run, parts, resume)
    if progress.step >= num_steps:
        logger.info("%s", schedules.nothing_left_message(run.optim, steps_per_epoch, progress.step))

    is_scored = progress.score is not None
    sinks = open_sinks(run.output.log, out, num_steps, progress.step, is_scored, group, begin)
    feeding = input_pipeline.opened(
        run, train, num_classes, progress.step, num_steps, group, progress.bad_records
    )
    with sinks as write, Saver(run.output, group.report_progress) as saver, feeding as fed:
        saved, alarm = progress, Alarm()
        while True:
            # Between two steps, in this order: save, end, evaluate.
            group.report_progress("step", progress.step)
            epoch = math.ceil(progress.step / steps_per_epoch)
            ended = progress.step > 0 and progress.step in (epoch * steps_per_epoch, num_steps)
            looks = ended or not parts.is_async or progress.step % STEPS_APART == 0
            wish, is_time = (
                signals.agree_on_stop(group, stop_requests, saver.is_time()) if looks else (None, False)
            )
            if progress != saved and saver.is_due(progress.step, anyway=ended or is_time or wish is not None):
                state.meet(parts, progress.step)
                saver.save(_snapshot(run, parts, progress, identity) if group.is_writer else None)
                saved = progress
            unscored = ended and val is not None and progress.score is None
            over = early_stop.is_over(progress.best, run.optim.early_stop)
            if (progress.step >= num_steps or over) and not unscored:
                break
            if wish:
                raise wish
            if unscored:
                progress = _scored(run, parts, val, progress, epoch, stop_requests, write)
                continue

            started, step, rate = time.monotonic(), progress.step, rate_of(progress.step)
            outcome = train_step(parts, fed.batches(step), fed.release, step, rate, progress.scale)
            progress = progress.after(outcome, fed.bad_records(progress.bad_records))
            seconds = time.monotonic() - started
            write(_step_record(progress, step // steps_per_epoch + 1, rate, outcome, seconds))
            alarm = _listen(alarm, parts, progress, outcome)
            if not outcome.applied:
                _tell_or_end(run, parts, train, identity, progress, outcome)
    if over and progress.best:
        logger.info(
            "--early-stop: no better score than %.4f of step %d", progress.best.score, progress.best.step
        )


def _snapshot(run: Run, parts: Parts, progress: Progress, identity: InputIdentity) -> Snapshot:
    try:
        return state.snapshot(run, parts, progress, identity)
    except Diverged:
        raise lost_weights(parts, progress, Path(run.output.out)) from None


def _scored(
    run: Run, parts: Parts, val: Any, progress: Progress, epoch: int, stop_requests: list[Stop], write: Any
) -> Progress:
    """With an evaluation's score; without one where a wish cuts it short, and whoever goes on evaluates first."""
    state.meet(parts, progress.step)
    with with_averages(parts.ema):
        found = evaluate(
            run, parts.net, parts.plain_loss, val, parts.contexts, stop_requests, parts.group, progress.step
        )
        if found is None:
            return progress
        write({"kind": "eval", "step": progress.step, "epoch": epoch, **found})
        if not math.isfinite(found["val_loss"]):
            raise diverged_in_evaluation(run, parts, val, progress, found["val_loss"], Path(run.output.out))
    return progress.scored(found["val_accuracy"])


def _step_record(progress: Progress, epoch: int, rate: float, outcome: Outcome, seconds: float) -> Record:
    record: dict[str, Any] = {
        "kind": "train",
        "step": progress.step,
        "epoch": epoch,
        "loss": outcome.loss,
        "lr": rate,
        "accuracy": outcome.accuracy,
        "gradient_norm": outcome.gradient_norm,
        "images_per_second": outcome.num_samples / seconds,
        "seconds": seconds,
    }
    if outcome.staleness is not None:
        record.update(staleness=outcome.staleness)
    if outcome.scale.dynamic:
        record.update(loss_scale=outcome.scale.scale)
    if outcome.scale.dynamic or progress.skipped_steps:
        record.update(applied=outcome.applied, skipped_steps=progress.skipped_steps)
    if progress.bad_records:
        record.update(bad_records=len(progress.bad_records))
    return record


def _listen(alarm: Alarm, parts: Parts, progress: Progress, outcome: Outcome) -> Alarm:
    """Late updates can swing themselves up, which shows in the loss long before it stops being a number."""
    if not parts.is_async or not outcome.applied:
        return alarm
    heard = alarms.after(alarm, outcome.loss)
    if heard.level == "diverged":
        raise Diverged(
            f"step {progress.step}: {alarms.describe(heard)}; lower --lr or --num-workers, and give another --out"
        )
    if heard.level == "warning" != alarm.level:
        logger.warning("step %d: %s", progress.step, alarms.describe(heard))
    return heard


def _tell_or_end(
    run: Run, parts: Parts, train: Any, identity: InputIdentity, progress: Progress, outcome: Outcome
) -> None:
    """The last step was skipped; as one bad step too many, it is taken once more, to find where it goes wrong."""
    bad, most = progress.bad_steps_in_a_row, run.optim.max_bad_steps
    if bad >= most:
        step, out = progress.step - 1, Path(run.output.out)
        with input_pipeline.opened(
            run, train, len(identity.class_names), step, progress.step, parts.group
        ) as again:
            batches = again.batches(step)
            raise diverged(parts, batches, again.release, train.where, progress, outcome, out)
    if bad:
        logger.warning("step %d skipped: not finite; %d of %d in a row end the run", progress.step, bad, most)
    else:
        scale = outcome.scale.scale
        logger.info("step %d skipped: gradients overflow; the loss scale is now %g", progress.step, scale)
