"""The training loop: a run from its first step to its last, top to bottom in `train`.

Owns the loop around steps, checkpoints and evaluations. What comes next is decided in `next_action.py`; a step is
`step.py`'s, what a batch is made of `input_pipeline.py`'s, what a checkpoint holds `state.py`'s.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from pathlib import Path
from typing import Any, Callable, ContextManager

from mxtrain.checkpoint.checkpointer import Checkpointer
from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.checkpoint.input_identity import InputIdentity
from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup
from mxtrain.config import Run
from mxtrain.core.errors import Diverged, Stop
from mxtrain.data.records import Dataset, Records
from mxtrain.optim import early_stop, schedules
from mxtrain.report.writers import Record, Shown, open_sinks
from mxtrain.tasks import find as tasks
from mxtrain.tasks.task import Task
from mxtrain.train import diagnose, loss_alarm, signals
from mxtrain.train.evaluator import Evaluator
from mxtrain.train.input_pipeline import open_pipeline
from mxtrain.train.loss_alarm import LossAlarm
from mxtrain.train.next_action import Action, RunLength, next_action
from mxtrain.train.parts import TrainingParts, build_parts
from mxtrain.train.state import TrainState, restore, snapshot, synchronize
from mxtrain.train.step import StepResult, train_step

logger = logging.getLogger(__name__)

ASYNC_AGREEMENT_STEPS = 10  # between two agreements of workers that do not wait for each other at every step


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
) -> Any:
    """Train as `run` says, on data sets that `identity` identifies, from `checkpoint` or from the start.

    Returns the net. All workers of `group` call it with the same run. It ends early with an exception: one of
    `stop_requests`, after a checkpoint, or one that says what went wrong; a hook's request returns the net too.
    `on_first_record` is called before the first record is written, `on_record` with each, on the first worker.
    """
    task = tasks.of_description(run, identity.description)
    length = RunLength(*schedules.run_length(run.optim, len(train_set)))
    rate_at = schedules.rate_function(run.optim, *length)
    parts = build_parts(run, task, group, is_fresh=checkpoint is None)
    state = restore(run, parts, checkpoint)
    if state.step >= length.num_steps:
        logger.info("%s", schedules.nothing_left_message(run.optim, length.steps_per_epoch, state.step))

    sinks = _open_sinks(run, parts, state, length, on_first_record, on_record)
    saving = Checkpointer(run.output, state, group.report_progress)
    loading = open_pipeline(run, train_set, task, state.step, length.num_steps, group, state.bad_records)
    with sinks as write, saving as checkpointer, loading as pipeline:
        evaluator = Evaluator(run, parts, val_set, length, stop_requests, write)
        synchronized_step: int | None = None
        alarm = LossAlarm()

        while True:
            action, stop = _agree_on_action(run, parts, state, length, checkpointer, evaluator, stop_requests)
            if _has_ended(action, stop):
                break

            # Synchronize the workers: once for all that is saved and evaluated at this step
            if action is not Action.TRAIN and synchronized_step != state.step:
                synchronize(parts, state.step)
                synchronized_step = state.step

            # Save
            if action is Action.SAVE:
                _save(run, parts, state, identity, checkpointer)
                continue

            # Evaluate: unless a stop request comes in between, the state has a score afterwards
            if action is Action.EVALUATE:
                state = evaluator.evaluate(state)
                continue

            # Train one step
            started, rate = time.monotonic(), rate_at(state.step)
            batches = pipeline.batches(state.step)
            result = train_step(parts, batches, pipeline.release, state.step, rate, state.scale)
            bad_records = pipeline.gather_bad_records(state.bad_records)
            state = dataclasses.replace(state.after_step(result), bad_records=bad_records)
            seconds = time.monotonic() - started
            write(_step_record(task, state, length.epoch_of(state.step), rate, result, seconds))
            alarm = _check_loss(alarm, parts, state, result)
            if not result.applied:
                _report_skipped_step(run, parts, train_set, state, result)

    if state.best and early_stop.is_over(state.best, run.optim.early_stop):
        logger.info("--early-stop: no better score than %.4f of step %d", state.best.score, state.best.step)
    return parts.net


def _open_sinks(
    run: Run,
    parts: TrainingParts,
    state: TrainState,
    length: RunLength,
    on_first_record: Callable[[], None],
    on_record: Callable[[Record], None],
) -> ContextManager[Callable[[Record], None]]:
    """Return a block that gives the function to which a record goes for all sinks; they go on behind `state`."""
    out, is_scored = Path(run.output.out), state.score is not None
    shown = Shown(parts.task.unit, tuple(parts.task.step_means), parts.judgement.score.name)
    return open_sinks(
        *(run.output.log, out, length.num_steps, state.step, is_scored, parts.group),
        *(on_first_record, shown, on_record),
    )


def _agree_on_action(
    run: Run,
    parts: TrainingParts,
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
    return action, stop


def _has_ended(action: Action, stop: Stop | None) -> bool:
    """Return whether the run is over, because it is finished or a hook asked for it; other requests are raised."""
    if stop is None or action is not Action.STOP:
        return action is Action.FINISH
    if stop is not signals.BY_HOOK:
        raise stop
    logger.info("%s", stop)
    return True


def _save(
    run: Run, parts: TrainingParts, state: TrainState, identity: InputIdentity, checkpointer: Checkpointer
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
        raise diagnose.spoilt_weights(parts, state, Path(run.output.out)) from None
    checkpointer.save(state, copied)


def _step_record(
    task: Task, state: TrainState, epoch: int, rate: float, result: StepResult, seconds: float
) -> Record:
    """Return the record of the step that led to `state`, for metrics.jsonl."""
    record: Record = {
        "kind": "train",
        "step": state.step,
        "epoch": epoch,
        "loss": result.loss,
        "lr": rate,
        **result.means,
        "gradient_norm": result.gradient_norm,
        f"{task.unit}_per_second": result.num_samples * task.units_per_sample / seconds,
        "seconds": seconds,
    }
    if result.staleness is not None:
        record.update(staleness=result.staleness)
    if result.scale.dynamic:
        record.update(loss_scale=result.scale.scale)
    if result.scale.dynamic or state.skipped_steps:
        record.update(applied=result.applied, skipped_steps=state.skipped_steps)
    if state.bad_records:
        record.update(bad_records=len(state.bad_records))
    return record


def _check_loss(alarm: LossAlarm, parts: TrainingParts, state: TrainState, result: StepResult) -> LossAlarm:
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
    parts: TrainingParts,
    train_set: Dataset,
    state: TrainState,
    result: StepResult,
) -> None:
    """Log that the last step was skipped; after one bad step too many find out why, and raise."""
    bad_steps, most = state.bad_steps_in_a_row, run.optim.max_bad_steps
    if bad_steps >= most:
        step, out = state.step - 1, Path(run.output.out)
        with open_pipeline(run, train_set, parts.task, step, state.step, parts.group) as pipeline:
            raise diagnose.bad_step(
                parts, pipeline.batches(step), pipeline.release, train_set.where, state, result, out
            )
    if not result.weight:
        logger.warning("step %d skipped: none of its samples counts, its weight is 0", state.step)
    elif bad_steps:
        logger.warning(
            "step %d skipped: not finite; %d of %d in a row end the run", state.step, bad_steps, most
        )
    else:
        scale = result.scale.scale
        logger.info("step %d skipped: gradients overflow; the loss scale is now %g", state.step, scale)
