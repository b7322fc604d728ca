"""The training loop: a run from its first step to its last, top to bottom in `train`.

Owns the loop around steps, checkpoints and evaluations. What comes next is decided in `next_action.py`; a step is
`step.py`'s, what a batch is made of `input_pipeline.py`'s, what a checkpoint holds `state.py`'s.
"""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any, Callable

from mxtrain.checkpoint.checkpointer import Checkpointer
from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.checkpoint.input_identity import InputIdentity
from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup
from mxtrain.config import Run
from mxtrain.core.errors import Diverged, Stop
from mxtrain.data.interfaces import Dataset, Records
from mxtrain.optim import average_plan, early_stop, schedules
from mxtrain.report.sinks.console import Shown
from mxtrain.report.sinks.record import Record
from mxtrain.report.sinks.writers import Logged, Report, open_sinks
from mxtrain.tasks import registry as tasks
from mxtrain.tasks.metrics import metric_selection
from mxtrain.tasks.task import Task
from mxtrain.train import nonfinite_errors, signals
from mxtrain.train.context import TrainContext, build_context
from mxtrain.train.evaluator import Evaluator
from mxtrain.train.input_pipeline import InputPipeline, open_pipeline
from mxtrain.train.next_action import Action, RunLength, next_action
from mxtrain.train.state import TrainState, restore, snapshot, synchronize, widths_of
from mxtrain.train.step import StepResult, train_step
from mxtrain.train.telemetry import loss_alarm
from mxtrain.train.telemetry.epoch_metrics import observed
from mxtrain.train.telemetry.loss_alarm import LossAlarm
from mxtrain.train.telemetry.profile import StepProfiler
from mxtrain.train.telemetry.step_records import ASYNC_AGREEMENT_STEPS, StepRecords

logger = logging.getLogger(__name__)


def train(
    run: Run,
    train_set: Dataset,
    val_set: Records | None,
    identity: InputIdentity,
    checkpoint: Checkpoint | None,
    stop_requests: list[Stop],
    group: WorkerGroup = SINGLE_WORKER,
    on_first_record: Callable[[], None] = lambda: None,
    on_record: Callable[[Record], None] = lambda record: None,
    began: float | None = None,
    job_restarts: int = 0,
) -> Any:
    """Train as `run` says, on data sets that `identity` identifies, from `checkpoint` or from the start.

    Returns the net. All workers of `group` call it with the same run. It ends early with an exception: one of
    `stop_requests`, after a checkpoint, or one that says what went wrong; a hook's request returns the net too.
    `on_first_record` is called before the first record is written, `on_record` with each, on the first worker. `began`
    is when this attempt did, by time.monotonic(); `job_restarts` is how often its cluster's job was started again.
    """
    task = tasks.of_description(run, identity.description)
    length = RunLength(*schedules.run_length(run.optim, len(train_set)))
    rate_at = schedules.rate_function(run.optim, *length)
    parts, state = _beginning(run, task, length, group, checkpoint, began)

    sinks = open_sinks(_logged(run, parts, state, length, job_restarts), group, on_first_record, on_record)
    saving = Checkpointer(run.output, state, group.report_progress)
    loading = open_pipeline(run, train_set, task, state.step, length.num_steps, group, state.bad_records)
    profiling, observing = StepProfiler(run, parts, state.step), observed(parts, length)
    with sinks as report, saving as checkpointer, loading as pipeline, profiling as profiler, observing as observe:
        evaluator = Evaluator(run, parts, val_set, length, stop_requests, report.write, report.evaluating)
        synchronized_step: int | None = None
        alarm, records = LossAlarm(), StepRecords(parts, length, pipeline, report, observe)
        report.initialise_seconds, report.lap = parts.clock.lap_apart(), parts.clock.lap_apart

        while True:
            action, stop = _agree_on_action(run, parts, state, length, checkpointer, evaluator, stop_requests)
            if _has_ended(run, state, action, stop, report):
                break

            # Synchronize the workers: once for all that is saved and evaluated at this step
            if action is not Action.TRAIN and synchronized_step != state.step:
                synchronize(parts, state.step)
                synchronized_step = state.step

            # Save
            if action is Action.SAVE:
                _save(run, parts, state, identity, checkpointer)
                _report_checkpoint(report, state, length, parts.clock.lap_apart("checkpoint"))
                continue

            # Evaluate: unless a stop request comes in between, the state has a score afterwards
            if action is Action.EVALUATE:
                state = evaluator.evaluate(state)
                continue

            # Train one step
            profiler.before_step(state.step + 1)
            before, rate = state, rate_at(state.step)
            state, result = _train_step(parts, pipeline, state, rate)
            records.write(before, state, rate, result)
            profiler.after_step(state.step, length.epoch_of(state.step), report.event)
            alarm = _check_loss(alarm, parts, state, result)
            if not result.applied:
                _report_skipped_step(run, parts, train_set, state, result, report, length)
    return parts.net


def _beginning(
    run: Run,
    task: Task,
    length: RunLength,
    group: WorkerGroup,
    checkpoint: Checkpoint | None,
    began: float | None,
) -> tuple[TrainContext, TrainState]:
    """Return the parts of this process, and the state from which the run goes on: the checkpoint's, or the first."""
    widths, averaging = checkpoint and widths_of(checkpoint), average_plan.of_run(run.optim, *length)
    parts = build_context(run, task, group, widths, began=began, averaging=averaging)
    state = restore(run, parts, checkpoint)
    if state.step >= length.num_steps:
        logger.info("%s", schedules.nothing_left_message(run.optim, length.steps_per_epoch, state.step))
    return parts, state


def _logged(run: Run, parts: TrainContext, state: TrainState, length: RunLength, job_restarts: int) -> Logged:
    """Return the run as its sinks have to know it; they go on behind `state`."""
    return Logged(
        out=Path(run.output.out),
        num_steps=length.num_steps,
        num_epochs=length.epoch_of(length.num_steps),
        sinks=run.output.sinks,
        step=state.step,
        epoch=length.epoch_of(state.step),
        is_scored=state.score is not None,
        shown=Shown(
            parts.task.unit,
            tuple(parts.task.step_means),
            parts.metrics.score.name,
            metric_selection.names_beside(parts.task),
        ),
        job_restarts=job_restarts,
    )


def _agree_on_action(
    run: Run,
    parts: TrainContext,
    state: TrainState,
    length: RunLength,
    checkpointer: Checkpointer,
    evaluator: Evaluator,
    stop_requests: list[Stop],
) -> tuple[Action, Stop | None]:
    """Return what all workers do next, and the stop request of any of them. Raises what a checkpoint failed of."""
    parts.group.report_progress("step", state.step)
    checkpointer.raise_if_failed()
    is_milestone = length.is_epoch_end(state.step) or evaluator.is_time(state.step)
    stop, is_time = None, False
    if is_milestone or not parts.is_async or state.step % ASYNC_AGREEMENT_STEPS == 0:
        stop, is_time = signals.agree_on_stop(parts.group, stop_requests, checkpointer.is_interval_over())
    # Before an evaluation, and after it once more, with the score.
    is_requested = is_milestone or is_time or stop is not None
    action = next_action(
        is_save_due=checkpointer.is_due(state, is_requested),
        is_evaluation_due=evaluator.is_due(state),
        is_finished=state.step >= length.num_steps or early_stop.is_over(state.best, run.optim.early_stop),
        is_stop_requested=stop is not None,
    )
    parts.clock.lap("other")
    return action, stop


def _has_ended(run: Run, state: TrainState, action: Action, stop: Stop | None, report: Report) -> bool:
    """Return whether the run is over, because it is finished or a hook asked for it; other requests are raised."""
    if action is Action.FINISH and state.best and early_stop.is_over(state.best, run.optim.early_stop):
        logger.info("--early-stop: no better score than %.4f of step %d", state.best.score, state.best.step)
    if stop is None or action is not Action.STOP:
        return action is Action.FINISH
    if stop is not signals.BY_HOOK:
        raise stop
    logger.info("%s", stop)
    report.stop_reason = str(stop)
    return True


def _save(
    run: Run, parts: TrainContext, state: TrainState, identity: InputIdentity, checkpointer: Checkpointer
) -> None:
    """Save this step: one worker copies the arrays, which are written beside the training."""
    checkpointer.wait()  # before the arrays are copied: memory holds one copy
    # No checkpoint holds the residuals of gradient compression, so this run goes on without them too, as one does
    # that resumes from here. An evaluation leaves them alone: it always follows a checkpoint.
    parts.trainer.drop_residuals()
    if not parts.group.is_writer:
        checkpointer.save(state, None)
        return
    try:
        copied = snapshot(run, parts, state, identity)
    except Diverged:
        raise nonfinite_errors.spoilt_weights(parts, state, Path(run.output.out)) from None
    checkpointer.save(state, copied)


def _train_step(
    parts: TrainContext, pipeline: InputPipeline, state: TrainState, rate: float
) -> tuple[TrainState, StepResult]:
    """Train one step, on its batches, and return the state after it."""
    parts.clock.start_step(state.step + 1)
    batches = pipeline.batches(state.step)
    parts.clock.lap("split")
    result = train_step(parts, batches, pipeline.release, state.step, rate, state.scale)
    if parts.average is not None:
        parts.average.after_step(state.step + 1)
    bad_records = pipeline.gather_bad_records(state.bad_records)
    parts.clock.lap("synchronize")
    return dataclasses.replace(state.after_step(result), bad_records=bad_records), result


def _report_checkpoint(report: Report, state: TrainState, length: RunLength, seconds: float) -> None:
    text = f"checkpoint of step {state.step}; training waited {seconds:.3g} s for it"
    report.event("checkpoint", text, state.step, length.epoch_of(state.step), seconds=round(seconds, 4))


def _check_loss(alarm: LossAlarm, parts: TrainContext, state: TrainState, result: StepResult) -> LossAlarm:
    """Return the alarm after one more loss. Under dist_async a rising loss is warned of, and ends a run that diverges.

    Late updates can build up an oscillation, which shows in the loss long before it stops being a number.
    """
    if not parts.is_async or not result.applied:
        return alarm
    after = loss_alarm.updated(alarm, result.loss)
    if after.level == "diverged":
        raise Diverged(
            f"step {state.step}: {loss_alarm.message(after)}; lower --lr or --num-workers, and give another --out"
        )
    if after.level == "warning" != alarm.level:
        logger.warning("step %d: %s", state.step, loss_alarm.message(after))
    return after


def _report_skipped_step(
    run: Run,
    parts: TrainContext,
    train_set: Dataset,
    state: TrainState,
    result: StepResult,
    report: Report,
    length: RunLength,
) -> None:
    """Say that the last step was skipped, and why; after one bad step too many find out more, and raise."""
    bad_steps, most = state.bad_steps_in_a_row, run.optim.max_bad_steps
    if bad_steps >= most:
        step, out = state.step - 1, Path(run.output.out)
        with open_pipeline(run, train_set, parts.task, step, state.step, parts.group) as pipeline:
            raise nonfinite_errors.bad_step(
                parts, pipeline.batches(step), pipeline.release, train_set.where, state, result, out
            )
    level, reason = logging.WARNING, "none of its samples counts, its weight is 0"
    if result.weight and bad_steps:
        reason = f"not finite; {bad_steps} of {most} in a row end the run"
    elif result.weight:
        level = logging.INFO
        reason = f"gradients overflow; the loss scale is now {result.scale.scale:g}"
    text = f"step {state.step} skipped: {reason}"
    logger.log(level, "%s", text)
    report.event("skipped_step", text, state.step, length.epoch_of(state.step))
