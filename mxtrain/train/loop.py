"""The training loop: a run from its first step to its last, top to bottom in `train`.

Owns the loop around steps, checkpoints and evaluations. What comes next is decided in `next_action.py`; a step is
`step.py`'s, what a batch is made of `input_pipeline.py`'s, what a checkpoint holds `state.py`'s.
"""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Callable, NamedTuple

from mxtrain.checkpoint.checkpointer import Checkpointer
from mxtrain.config import Optim
from mxtrain.core.errors import Diverged, Stop
from mxtrain.data.loading.run_plan import RunLength
from mxtrain.optim import early_stop, schedules
from mxtrain.report.sinks.sink import Logged, Shown
from mxtrain.report.sinks.writers import Report, open_sinks
from mxtrain.tasks.metrics import metric_selection
from mxtrain.train import nonfinite_errors, signals
from mxtrain.train.context import TrainContext
from mxtrain.train.evaluator import Evaluator
from mxtrain.train.held import choice
from mxtrain.train.input_pipeline import InputPipeline, open_pipeline
from mxtrain.train.job import TrainingJob
from mxtrain.train.next_action import Action, Ending, next_action
from mxtrain.train.observer import NOBODY, RunObserver
from mxtrain.train.state import TrainState, restore, snapshot, synchronize
from mxtrain.train.step_end import StepResult
from mxtrain.train.telemetry import loss_alarm
from mxtrain.train.telemetry.epoch_metrics import observed
from mxtrain.train.telemetry.loss_alarm import LossAlarm
from mxtrain.train.telemetry.profile import StepProfiler
from mxtrain.train.telemetry.step_records import ASYNC_AGREEMENT_STEPS, StepRecords

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block

logger = logging.getLogger(__name__)


class Trained(NamedTuple):
    """A net that was trained, and how that has ended."""

    net: Block
    ending: Ending


def train(
    job: TrainingJob,
    stop_requests: list[Stop],
    on_first_record: Callable[[], None] = lambda: None,
    observer: RunObserver = NOBODY,
) -> Trained:
    """Train as `job` says. All workers of its group call it with the same job.

    It ends early with an exception: one of `stop_requests`, after a checkpoint, or one that says what went wrong; a
    hook's request returns the net too. `on_first_record` is called before the first record is written, `observer` is
    the first worker's.
    """
    length = job.plan.length
    rate_at = schedules.rate_function(job.run.optim, length, job.task.objects)
    context = choice.context_of(job)
    state = restore(context, job.checkpoint)
    if state.step >= length.num_steps:
        logger.info("%s", schedules.nothing_left_message(job.run.optim, length.steps_per_epoch, state.step))

    observer = observer if job.group.rank == 0 else NOBODY
    sinks = open_sinks(_logged(context, state), job.group, on_first_record, observer.record)
    saving = Checkpointer(
        job.run.output,
        state,
        job.group.report_progress,
        lambda path, step: observer.checkpoint(path, step, length.epoch_of(step)),
    )
    loading = open_pipeline(job, range(state.step, length.num_steps), state.bad_records)
    profiling, observing = StepProfiler(context, state.step), observed(context)
    with sinks as report, saving as checkpointer, loading as pipeline, profiling as profiler, observing as observe:
        evaluator = Evaluator(context, stop_requests, report.write, report.evaluating)
        synchronized_step: int | None = None
        alarm, records = LossAlarm(), StepRecords(context, pipeline, report, observe)
        report.initialise_seconds, report.lap = context.clock.lap_apart(), context.clock.rest

        if evaluator.is_due(state) or not _is_finished(context, state):
            observer.begin(context.net, state.step, length.epoch_of(state.step))
        while True:
            action, stop = _agree_on_action(context, state, checkpointer, evaluator, stop_requests)
            ending = _ending(job.run.optim, state, action, stop, report)
            if ending is not None:
                break

            # Synchronize the workers: once for all that is saved and evaluated at this step
            if action is not Action.TRAIN and synchronized_step != state.step:
                synchronize(context, state.step)
                synchronized_step = state.step

            # Save
            if action is Action.SAVE:
                _save(context, state, checkpointer)
                _report_checkpoint(report, state, length, context.clock.lap_apart("checkpoint"))
                continue

            # Evaluate: unless a stop request comes in between, the state has a score afterwards
            if action is Action.EVALUATE:
                state = evaluator.evaluate(state)
                continue

            # Train one step
            profiler.before_step(state.step + 1)
            before, rate = state, rate_at(state.step)
            state, result = _train_step(context, pipeline, state, rate)
            records.write(before, state, rate, result)
            profiler.after_step(state.step, length.epoch_of(state.step), report.event)
            alarm = _check_loss(alarm, context, state, result)
            if not result.applied:
                _report_skipped_step(context, state, result, report)
    return Trained(context.net, ending)


def _logged(context: TrainContext, state: TrainState) -> Logged:
    """Return the run as its sinks have to know it; they go on behind `state`."""
    output, length = context.run.output, context.job.plan.length
    return Logged(
        out=Path(output.out),
        num_steps=length.num_steps,
        num_epochs=length.epoch_of(length.num_steps),
        sinks=output.sinks,
        step=state.step,
        epoch=length.epoch_of(state.step),
        is_scored=state.score is not None,
        shown=Shown(
            context.task.unit,
            tuple(context.task.step_means),
            context.metrics.score.name,
            metric_selection.names_beside(context.task),
        ),
        job_restarts=context.job.restarts,
    )


def _agree_on_action(
    context: TrainContext,
    state: TrainState,
    checkpointer: Checkpointer,
    evaluator: Evaluator,
    stop_requests: list[Stop],
) -> tuple[Action, Stop | None]:
    """Return what all workers do next, and the stop request of any of them. Raises what a checkpoint failed of."""
    length = context.job.plan.length
    context.group.report_progress("step", state.step)
    checkpointer.raise_if_failed()
    is_milestone = length.is_epoch_end(state.step) or evaluator.is_time(state.step)
    stop, is_time = None, False
    if is_milestone or not context.is_async or state.step % ASYNC_AGREEMENT_STEPS == 0:
        stop, is_time = signals.agree_on_stop(context.group, stop_requests, checkpointer.is_interval_over())
    # Before an evaluation, and after it once more, with the score.
    is_requested = is_milestone or is_time or stop is not None
    action = next_action(
        is_save_due=checkpointer.is_due(state, is_requested),
        is_evaluation_due=evaluator.is_due(state),
        is_finished=_is_finished(context, state),
        is_stop_requested=stop is not None,
    )
    context.clock.lap("other")
    return action, stop


def _is_finished(context: TrainContext, state: TrainState) -> bool:
    """Return whether no step is left to be trained."""
    num_steps, early_end = context.job.plan.length.num_steps, context.run.optim.early_stop
    return state.step >= num_steps or early_stop.is_over(state.best, early_end)


def _ending(
    optim: Optim, state: TrainState, action: Action, stop: Stop | None, report: Report
) -> Ending | None:
    """Return how the run has ended, None while it goes on; stop requests but a hook's are raised."""
    if action is Action.FINISH:
        if state.best is None or not early_stop.is_over(state.best, optim.early_stop):
            return "done"
        logger.info("--early-stop: no better score than %.4f of step %d", state.best.score, state.best.step)
        return "early stop"
    if stop is None or action is not Action.STOP:
        return None
    if stop is not signals.BY_HOOK:
        raise stop
    logger.info("%s", stop)
    report.stop_reason = str(stop)
    return "stopped by a hook"


def _save(context: TrainContext, state: TrainState, checkpointer: Checkpointer) -> None:
    """Save this step: one worker copies the arrays, which are written beside the training."""
    checkpointer.wait()  # before the arrays are copied: memory holds one copy
    # No checkpoint holds the residuals of gradient compression, so this run goes on without them too, as one does
    # that resumes from here. An evaluation leaves them alone: it always follows a checkpoint.
    context.trainer.drop_residuals()
    if not context.group.is_writer:
        checkpointer.save(state, None)
        return
    try:
        copied = snapshot(context, state)
    except Diverged:
        raise nonfinite_errors.spoilt_weights(context, state) from None
    checkpointer.save(state, copied)
    if choice.is_held(context):  # it is read while it is written, and must not move
        checkpointer.wait()


def _train_step(
    context: TrainContext, pipeline: InputPipeline, state: TrainState, rate: float
) -> tuple[TrainState, StepResult]:
    """Train one step, on its batches, and return the state after it."""
    context.clock.start_step(state.step + 1)
    batches = pipeline.batches(state.step)
    context.clock.lap("split")
    train_step = choice.step_of(context)
    result = train_step(context, batches, pipeline.release, state.step, rate, state.scale)
    for companion in context.companions.values():
        companion.after_step(state.step + 1)
    bad_records = pipeline.gather_bad_records(state.bad_records)
    context.clock.lap("synchronize")
    return dataclasses.replace(state.after_step(result), bad_records=bad_records), result


def _report_checkpoint(report: Report, state: TrainState, length: RunLength, seconds: float) -> None:
    text = f"checkpoint of step {state.step}; training waited {seconds:.3g} s for it"
    report.event("checkpoint", text, state.step, length.epoch_of(state.step), seconds=round(seconds, 4))


def _check_loss(alarm: LossAlarm, context: TrainContext, state: TrainState, result: StepResult) -> LossAlarm:
    """Return the alarm after one more loss. Under dist_async a rising loss is warned of, and ends a run that diverges.

    Late updates can build up an oscillation, which shows in the loss long before it stops being a number.
    """
    if not context.is_async or not result.applied:
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
    context: TrainContext, state: TrainState, result: StepResult, report: Report
) -> None:
    """Say that the last step was skipped, and why; after one bad step too many find out more, and raise."""
    job, bad_steps, most = context.job, state.bad_steps_in_a_row, context.run.optim.max_bad_steps
    if bad_steps >= most:
        step = state.step - 1
        with open_pipeline(job, range(step, state.step)) as pipeline:
            raise nonfinite_errors.bad_step(
                context, pipeline.batches(step), pipeline.release, job.train_set.where, state, result
            )
    level, reason = logging.WARNING, "none of its samples counts, its weight is 0"
    if result.weight and bad_steps:
        reason = f"not finite; {bad_steps} of {most} in a row end the run"
    elif result.weight:
        level = logging.INFO
        reason = f"gradients overflow; the loss scale is now {result.scale.scale:g}"
    text = f"step {state.step} skipped: {reason}"
    logger.log(level, "%s", text)
    report.event("skipped_step", text, state.step, job.plan.length.epoch_of(state.step))
