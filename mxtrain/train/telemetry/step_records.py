"""The records that a step leaves: `train`, and on sampled steps `layers` and `workers` (docs/records.md).

Owns what they hold and when workers tell each other their times; `report` writes them.
"""

from __future__ import annotations

from typing import Any

from mxtrain.report.sinks.writers import Report
from mxtrain.train.context import TrainContext
from mxtrain.train.input_pipeline import InputPipeline
from mxtrain.train.state import TrainState
from mxtrain.train.step_end import StepResult
from mxtrain.train.telemetry.epoch_metrics import AfterStep
from mxtrain.train.telemetry.worker_times import WorkerTimes

ASYNC_AGREEMENT_STEPS = 10  # between two agreements of workers that do not wait for each other at every step


class StepRecords:
    """The records of this worker's steps, which every worker of the run has written at the same steps."""

    def __init__(
        self,
        context: TrainContext,
        pipeline: InputPipeline,
        report: Report,
        observe: AfterStep,
    ):
        self._context, self._pipeline = context, pipeline
        self._report, self._observe = report, observe
        self._worker_times = WorkerTimes(context.group, context.job.plan.batch.shares())

    def write(self, before: TrainState, state: TrainState, rate: float, result: StepResult) -> None:
        """Write what the step from `before` to `state` leaves; its time ends here. A collective."""
        times, group = self._context.clock.take(), self._context.group
        place = {"step": state.step, "epoch": self._context.job.plan.length.epoch_of(state.step)}
        self._report.write({"kind": "train", **place, **_numbers(self._context, state, rate, result, times)})
        if result.layers:
            self._report.write({"kind": "layers", **place, **result.layers})
        for position in sorted({*state.bad_records} - {*before.bad_records}):
            record = self._context.job.train_set.where(position)
            text = f"a bad record was replaced by another: {record}"
            self._report.event("bad_record", text, **place, record=record, sample=position)
        self._observe(
            self._report.write, self._pipeline.loader, state.step, result.num_samples, times["seconds"]
        )
        self._worker_times.add(times)
        is_together = not self._context.is_async or state.step % ASYNC_AGREEMENT_STEPS == 0
        if group.world_size > 1 and self._context.clock.is_sampling and is_together:
            workers = self._worker_times.gather()
            self._report.write({"kind": "workers", **place, "workers": workers})
            if group.rank == 0:
                self._worker_times.report_straggler(workers)


def _numbers(
    context: TrainContext, state: TrainState, rate: float, result: StepResult, times: dict[str, Any]
) -> dict[str, Any]:
    task = context.task
    numbers: dict[str, Any] = {
        "loss": result.loss,
        "lr": rate,
        **result.means,
        "gradient_norm": result.gradient_norm,
        f"{task.unit}_per_second": result.num_samples * task.units_per_sample / times["seconds"],
        **times,
    }
    if context.tables is not None:
        rows = context.tables.take_seconds()
        numbers.update(rows_wait_seconds=rows.waited, rows_hidden_seconds=rows.hidden)
    if result.staleness is not None:
        numbers.update(staleness=result.staleness)
    if result.scale.dynamic:
        numbers.update(loss_scale=result.scale.scale)
    if result.scale.dynamic or state.skipped_steps:
        numbers.update(applied=result.applied, skipped_steps=state.skipped_steps)
    if state.bad_records:
        numbers.update(bad_records=len(state.bad_records))
    return numbers
