"""The evaluation of a net on a data set: every sample once, exact counts.

Owns the numbers and the other records of an evaluation, for training and for the evaluate command. The net sees
micro-batches of the size that it trains with: they fit here too, where nothing is kept for a backward pass.
"""

from __future__ import annotations

import collections
import logging
import math
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Sequence

import numpy as np

from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup, gather_in_turn, in_order, sum_arrays
from mxtrain.config import batch_plan
from mxtrain.core.errors import DataError, Stop, UsageError
from mxtrain.data.fields import Array
from mxtrain.data.interfaces import Records
from mxtrain.data.loading import sample_requests
from mxtrain.data.loading.assembly import SampleAssembly
from mxtrain.data.loading.loader import Batch, Loader, loader_options
from mxtrain.tasks import registry as tasks
from mxtrain.tasks.metrics import metric_selection
from mxtrain.tasks.task import Forward, Outcome, State, Task
from mxtrain.train.net.to_device import to_device
from mxtrain.train.step import number
from mxtrain.train.telemetry.worst_samples import WorstSamples

if TYPE_CHECKING:
    from mxtrain.runtime.types import Device, Net

logger = logging.getLogger(__name__)


class Evaluation(NamedTuple):
    """The findings of an evaluation."""

    scores: dict[str, Any]  # by name: `val_loss`, `val_...` of each metric's, and `num_samples`
    records: list[dict[str, Any]]  # `classes` and `worst`, by their kinds


def evaluate(
    task: Task,
    forward: Forward,
    net: Net,
    records: Records,
    devices: Sequence[Device],
    stop_requests: Sequence[Stop] = (),
    group: WorkerGroup = SINGLE_WORKER,
    step: int = 0,
    on_samples: Callable[[int, int], None] = lambda done, total: None,
) -> Evaluation | None:
    """Return loss, the task's metrics and more over all of `records`, which the workers of `group` divide among them.

    None after a stop request on any worker. `forward` is the task's, without what helps training. `step` is reported as
    this worker's progress; `on_samples` is called with how many samples are done, about, and of how many.
    """
    sums, done = _EvaluationSums(task, records), 0
    micro_batch = batch_plan.of_run(task.run).micro_batch
    with open_loader(task, records, micro_batch, group) as loader:
        pending: collections.deque[tuple[Batch, Outcome]] = collections.deque()
        for batch in loader:
            if stop_requests:
                break
            group.report_progress("evaluation", step)
            device = devices[batch.request.position % len(devices)]
            arrays = {name: to_device(array, device) for name, array in batch.arrays.items()}
            pending.append((batch, forward(net, arrays)))
            # As many batches compute at once as there are devices.
            if len(pending) == len(devices):
                sums.add(loader, *pending.popleft())
            done += len(batch) * group.world_size
            on_samples(min(done, len(records)), len(records))
        while pending:
            sums.add(loader, *pending.popleft())
            group.report_progress()
    # A state for each micro-batch: their sum has the same bits whoever computes them.
    return sums.finish(math.ceil(len(records) / micro_batch), group, len(stop_requests))


def open_loader(task: Task, records: Records, micro_batch: int, group: WorkerGroup = SINGLE_WORKER) -> Loader:
    """Return a loader of this worker's part of all samples, each once, in micro-batches of training's size."""
    requests = sample_requests.evaluation_requests(len(records), micro_batch, group.rank, group.world_size)
    reader, data = tasks.function_of(task, task.reader, False), task.run.data
    assembly = SampleAssembly(records, reader, task.fields, seed=0, skip_bad=data.skip_bad)
    return Loader(assembly, requests, loader_options(data))


class _EvaluationSums:
    """The losses and the metrics' states of this worker's micro-batches, in their order."""

    def __init__(self, task: Task, records: Records):
        self._metrics, self._report = metric_selection.metrics_of(task), metric_selection.report_of(task)
        self._losses: list[tuple[float, float]] = []  # with their weights
        self._states: list[list[Array]] = [[] for _ in self._metrics]
        self._report_states: list[State] = []
        self._worst = WorstSamples(tasks.without_failures(task, task.sample_result, {}))
        self._num_samples = len(records)
        self._positions = sample_requests.positions(records)

    def add(self, loader: Loader, batch: Batch, outcome: Outcome) -> None:
        """Wait for what became of the next micro-batch, and release it."""
        losses = outcome.losses.asnumpy()
        self._losses.append((losses.sum(dtype=np.float64), number(outcome.weight)))
        for metric, states in zip(self._metrics, self._states):
            states.append(np.asarray(metric.state(outcome.output, batch.arrays), np.float64))
        if self._report is not None:
            self._report_states.append(self._report.state(outcome.output, batch.arrays))
        self._worst.add(losses, self._positions[batch.request.samples], outcome.output, batch.arrays)
        loader.release(batch)

    def finish(self, num_micro_batches: int, group: WorkerGroup, num_stop_requests: int) -> Evaluation | None:
        """Return what all workers' micro-batches give; None where any of them has been asked to stop."""
        widths = (2, *(metric.width for metric in self._metrics))
        rows = np.zeros((num_micro_batches, sum(widths)))
        own_rows = rows[group.rank :: group.world_size]
        for place, (losses, *states) in enumerate(zip(self._losses, *self._states)):
            known = [state for metric, state in zip(self._metrics, states) if metric.width]
            own_rows[place] = np.concatenate([losses, *known])
        rows, num_of_all = sum_arrays(group, [rows, np.array(num_stop_requests)])
        if num_of_all:
            return None
        losses, *columns = np.split(rows, np.cumsum(widths)[:-1], axis=1)
        loss, weight = in_order(losses).tolist()
        if not weight:
            raise DataError("none of the samples that are evaluated counts: their weight is 0")
        all_scores = {"val_loss": loss / weight}
        for metric, of_metric, states in zip(self._metrics, columns, self._states):
            of_all = list(of_metric) if metric.width else gather_in_turn(group, states, num_micro_batches)
            scores = {f"val_{name}": value for name, value in metric.finish(of_all).items()}
            for name in scores.keys() & all_scores.keys():
                raise UsageError(metric_selection.duplicate_message(name[len("val_") :]))
            all_scores.update(scores)
        records = []
        if self._report is not None:
            of_all = gather_in_turn(group, self._report_states, num_micro_batches)
            numbers, record = self._report.judge(of_all)
            for name, value in numbers.items():
                all_scores.setdefault(f"val_{name}", value)
            records += [] if record is None else [{"kind": "classes", **record}]
        if group.rank == 0 and math.isfinite(loss):
            for remark in metric_selection.remarks(self._metrics, all_scores):
                logger.warning("%s", remark)
        if any(map(metric_selection.is_users, self._metrics)):
            all_scores = _of_rank_0(all_scores, group)
        worst = self._worst.of_all(group)
        records += [{"kind": "worst", "samples": worst}] if worst else []
        return Evaluation({**all_scores, "num_samples": self._num_samples}, records)


def _of_rank_0(scores: dict[str, float], group: WorkerGroup) -> dict[str, float]:
    """Return the numbers of the worker of rank 0, on each: all have to decide alike."""
    values = np.array(list(scores.values()), np.float64)
    values = values if group.rank == 0 else np.zeros_like(values)
    return dict(zip(scores, group.sum(values).tolist()))
