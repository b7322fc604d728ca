"""The parts of a training process: net, task, trainer, devices, averages.

Owns building them from a run. Every process builds its own; what of them survives a stop is `state.py`'s.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from typing import Any, Mapping, Sequence

import numpy as np

from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup, step_group
from mxtrain.config import Run, batch_plan, exact_sums
from mxtrain.config.checks import store_checks
from mxtrain.config.components import choices, registry
from mxtrain.kvstore.trainer import StepTrainer, open_trainer
from mxtrain.models.nets import sparse_rows
from mxtrain.models.parameters import running_statistics, weights
from mxtrain.optim import layer_rates, optimizers, weight_masks
from mxtrain.optim.average import WeightAverage
from mxtrain.optim.average_plan import AveragePlan
from mxtrain.optim.ema import Ema
from mxtrain.optim.optimizer_state import ExtraOptimizerState
from mxtrain.optim.sums.grid import Grid
from mxtrain.optim.weight_decay import exempt_from_decay
from mxtrain.optim.weight_masks import WeightMasks
from mxtrain.tasks import registry as tasks
from mxtrain.tasks.metrics import metric_selection
from mxtrain.tasks.metrics.metric_selection import MetricSelection
from mxtrain.tasks.task import Forward, Task
from mxtrain.train.net import build_net, distillation
from mxtrain.train.telemetry.seen_samples import SeenSamples
from mxtrain.train.telemetry.stage_clock import StageClock

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class TrainContext:
    """The objects that a step works with and changes in place."""

    net: Any
    task: Task
    prepare: SeenSamples  # the task's, which keeps the first samples that it makes
    forward: Forward  # whose losses are learnt from
    plain_forward: Forward  # without what helps training, as an evaluation judges
    metrics: MetricSelection
    trainer: StepTrainer
    optimizer: Any
    extra_optimizer_state: ExtraOptimizerState
    contexts: Sequence[Any]
    seed: int
    num_micro_batches: int
    batch_size: int
    grid: Grid | None  # on which gradients are summed; None: as they come, in float32
    clip_norm: float
    clip_value: float
    ema: Ema | None
    average: WeightAverage | None
    masks: WeightMasks | None  # of weights that stay zero
    needs_input_grad: bool  # for the running statistics of norms that train nothing
    sample_counter: running_statistics.SampleCounter
    group: WorkerGroup  # all workers
    step_group: (
        WorkerGroup  # the workers that make each step together: all, or under dist_async this one alone
    )
    is_async: bool  # whether workers update the weights without waiting for each other
    clock: StageClock = dataclasses.field(default_factory=StageClock)
    untried: set[Any] = dataclasses.field(default_factory=set)  # devices that have computed nothing by now


def build_context(
    run: Run,
    task: Task,
    group: WorkerGroup = SINGLE_WORKER,
    widths: Mapping[str, int] | None = None,
    is_trial: bool = False,
    began: float | None = None,
    averaging: AveragePlan | None = None,
) -> TrainContext:
    """Return everything that a first step of `run` needs.

    With `widths`, those of a checkpoint's net, initial weights are left out, because `state.restore` will bring its. A
    trial takes no step, and opens no store of a cluster, which would wait for the other workers. The clock of steps has
    been running since `began`; `averaging` says when --average takes weights.
    """
    optim, places = run.optim, build_net.contexts(run.layout.devices)
    net = build_net.build_to_train(run, task, places, widths)
    masks = weight_masks.of_run(net, run.model, widths is None)
    trained = _trained_parameters(run, net)
    optimizer = optimizers.build(optim)
    extra_optimizer_state = ExtraOptimizerState(optimizer)
    plan = batch_plan.of_run(run)
    trainer = open_trainer(
        trained,
        optimizer,
        "device" if is_trial else run.layout.kvstore,
        running_statistics.parameters(net),
        registry.compression_threshold(optim.compress),
        group,
        running_statistics.num_rows(plan.num_micro_batches),
    )
    return TrainContext(
        net=net,
        task=task,
        prepare=SeenSamples(tasks.named(task, task.prepare), is_kept=group.rank == 0),
        forward=tasks.function_of(task, task.training_forward, distillation.teacher_net(run, places)),
        plain_forward=tasks.function_of(task, task.plain_forward),
        metrics=metric_selection.of_task(task),
        trainer=trainer,
        optimizer=optimizer,
        extra_optimizer_state=extra_optimizer_state,
        contexts=places,
        seed=optim.seed,
        num_micro_batches=plan.num_micro_batches,
        batch_size=plan.batch_size,
        grid=_grid(run, trained, group.rank),
        clip_norm=optim.clip_norm,
        clip_value=optim.clip_value,
        ema=Ema(net, optim.ema) if optim.ema else None,
        average=WeightAverage(net, averaging) if averaging else None,
        masks=masks,
        needs_input_grad=running_statistics.need_input_grad(net),
        sample_counter=running_statistics.SampleCounter(),
        group=group,
        step_group=step_group(group, run.layout.kvstore),
        is_async=choices.is_async(run.layout.kvstore),
        clock=StageClock(began, run.output.sample_steps),
        untried=set(places),
    )


def _trained_parameters(run: Run, net: Any) -> list[Any]:
    """Return the net's parameters, each with its own decay and rate; refuse tables that the store cannot sum."""
    trained = list(weights.named_parameters(net).values())
    if not run.optim.decay_all:
        exempt_from_decay(trained)
    layer_rates.scale_rates(net, run.optim)
    tables = sparse_rows.trained_tables(trained)
    if tables:
        store_checks.check_tables(run, [table.name for table in tables if not hasattr(table, "pull_rows")])
    return trained


def _grid(run: Run, parameters: Sequence[Any], rank: int) -> Grid | None:
    """Return a grid for the sums of gradients; None where a step has none, or adds as they come and says so."""
    if not exact_sums.has_sums(run):
        return None
    trained = [parameter for parameter in parameters if parameter.grad_req != "null"]
    tables = [each.name for each in sparse_rows.trained_tables(parameters)]
    types = {each.name: np.dtype(each.dtype).name for each in trained}
    reason = exact_sums.reason_against(
        run, tables, {name: kind for name, kind in types.items() if kind != "float32"}
    )
    if reason is not None:
        logger.info("%s", exact_sums.warning(run, reason))
        return None
    num_micro_batches = batch_plan.of_run(run).num_micro_batches
    is_single = len(batch_plan.positions(run, num_micro_batches, rank)) <= 1
    return Grid([math.prod(each.shape) for each in trained], num_micro_batches, is_single)
