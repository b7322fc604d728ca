"""The context of a training process: net, task, trainer, devices, averages.

Owns building them from a run. Every process builds its own; what of them survives a stop is `state.py`'s.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import math
from typing import TYPE_CHECKING, Iterator, Mapping, Sequence

import numpy as np

from mxtrain.checkpoint.directory import AVERAGE, AVERAGES, MASKS
from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup, step_group
from mxtrain.config import Run, exact_sums
from mxtrain.config.checks import store_checks
from mxtrain.config.components import stores
from mxtrain.kvstore.owners import layout, remote
from mxtrain.kvstore.owners.remote import RemoteOwners
from mxtrain.kvstore.trainers.tables_trainer import TablesTrainer
from mxtrain.kvstore.trainers.trainer import StepTrainer, open_trainer
from mxtrain.models.nets import sparse_rows
from mxtrain.models.parameters import running_statistics, weights
from mxtrain.models.stages import StagedNet
from mxtrain.optim import average_plan, layer_rates, optimizers, weight_masks
from mxtrain.optim.average import WeightAverage
from mxtrain.optim.companion import Companion
from mxtrain.optim.ema import Ema
from mxtrain.optim.optimizer_state import ExtraOptimizerState
from mxtrain.optim.sums.grid import Grid
from mxtrain.optim.weight_decay import exempt_from_decay
from mxtrain.tasks import registry as tasks
from mxtrain.tasks.metrics import metric_selection
from mxtrain.tasks.metrics.metric_selection import MetricSelection
from mxtrain.tasks.task import Forward, Task
from mxtrain.train.job import TrainingJob
from mxtrain.train.net import build_net, distillation
from mxtrain.train.net.build_net import BuiltNet
from mxtrain.train.staged import placement
from mxtrain.train.tables.open_tables import open_tables
from mxtrain.train.tables.step_tables import StepTables
from mxtrain.train.telemetry.seen_samples import SeenSamples
from mxtrain.train.telemetry.stage_clock import StageClock

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, Device, Optimizer, Parameter

logger = logging.getLogger(__name__)

NO_COMPANIONS: Mapping[str, Companion] = {}


@dataclasses.dataclass(frozen=True)
class TrainContext:
    """The objects that a step works with and changes in place."""

    job: TrainingJob
    built: BuiltNet
    prepare: SeenSamples  # the task's, which keeps the first samples that it makes
    forward: Forward  # whose losses are learnt from
    plain_forward: Forward  # without what helps training, as an evaluation judges
    metrics: MetricSelection
    trainer: StepTrainer
    optimizer: Optimizer
    extra_optimizer_state: ExtraOptimizerState
    devices: Sequence[Device]
    grid: Grid | None  # on which gradients are summed; None: as they come, in float32
    companions: Mapping[
        str, Companion
    ]  # of the weights, by their files in a checkpoint, in the order that they act
    needs_input_grad: bool  # for the running statistics of norms that train nothing
    sample_counter: running_statistics.SampleCounter
    step_group: WorkerGroup  # who makes each step together: all workers, or under dist_async this one alone
    clock: StageClock
    untried: set[Device]  # devices that have computed nothing by now
    tables: StepTables | None = None  # of the net, if it has some

    @property
    def net(self) -> Block:
        """The net that is trained."""
        return self.built.net

    @property
    def run(self) -> Run:
        """The run as it is trained."""
        return self.job.run

    @property
    def task(self) -> Task:
        """The task of the run."""
        return self.job.task

    @property
    def group(self) -> WorkerGroup:
        """All workers."""
        return self.job.group

    @property
    def is_async(self) -> bool:
        """True where workers update the weights without waiting for each other."""
        return stores.is_async(self.run.layout.kvstore)

    @functools.cached_property
    def moving(self) -> list[Parameter]:
        """The running statistics that steps move; to look through a net of 50 layers takes 3 ms."""
        return running_statistics.parameters(self.net)

    @contextlib.contextmanager
    def for_evaluation(self) -> Iterator[None]:
        """A block in which the net computes with the weights that are to be judged: averages, if the run has some."""
        with contextlib.ExitStack() as stack:
            for companion in self.companions.values():
                stack.enter_context(companion.for_evaluation())
            yield


def build_context(job: TrainingJob, is_trial: bool = False) -> TrainContext:
    """Return everything that a first step of `job` needs.

    Initial weights are left out where the job has a checkpoint: `state.restore` will bring its. A trial takes no step,
    and opens no store of a cluster, which would wait for the other workers.
    """
    run, task, group = job.run, job.task, job.group
    optim, devices = run.optim, build_net.devices_of(run.layout.devices)
    widths = None if job.checkpoint is None else job.checkpoint.widths
    built = build_net.build_to_train(task, devices, widths)
    net = built.net
    if isinstance(net, StagedNet):
        shape = (job.plan.batch.micro_batch, *task.contract().inputs[0])
        placement.place(net, devices, shape, SINGLE_WORKER if is_trial else group)
        devices = devices[-1:]  # that of the answer
    companions = _companions(job, net)
    trained = parameters_of(run, net)
    optimizer = optimizers.build(optim, task.objects)
    grid = _grid(job, trained)
    servers = None if is_trial else owners_of(job, trained)
    trainer = open_trainer(
        trained,
        optimizer,
        "device" if is_trial else run.layout.kvstore,
        running_statistics.parameters(net),
        stores.compression_threshold(optim.compress),
        group,
        running_statistics.num_rows(job.plan.batch.num_micro_batches),
        stores.rounds_gradients(optim.compress),
        servers,
        grid,
    )
    tables = open_tables(job, net, servers)
    if tables is not None:
        trainer = TablesTrainer(trainer, tables)
    return assembled(job, built, devices, trainer, optimizer, grid, companions, tables)


def assembled(
    job: TrainingJob,
    built: BuiltNet,
    devices: Sequence[Device],
    trainer: StepTrainer,
    optimizer: Optimizer,
    grid: Grid | None,
    companions: Mapping[str, Companion] = NO_COMPANIONS,
    tables: StepTables | None = None,
) -> TrainContext:
    """Return the context of these parts, with what follows from the job."""
    run, task, group = job.run, job.task, job.group
    return TrainContext(
        job=job,
        built=built,
        prepare=SeenSamples(tasks.named(task, task.prepare), is_kept=group.rank == 0),
        forward=tasks.function_of(task, task.training_forward, distillation.teacher_net(run, devices)),
        plain_forward=tasks.function_of(task, task.plain_forward),
        metrics=metric_selection.of_task(task),
        trainer=trainer,
        optimizer=optimizer,
        extra_optimizer_state=ExtraOptimizerState(optimizer),
        devices=devices,
        grid=grid,
        companions=companions,
        needs_input_grad=running_statistics.need_input_grad(built.net),
        sample_counter=running_statistics.SampleCounter(),
        step_group=step_group(group, run.layout.kvstore),
        clock=StageClock(job.began, run.output.sample_steps),
        untried=set(devices),
        tables=tables,
    )


def owners_of(job: TrainingJob, parameters: Sequence[Parameter]) -> RemoteOwners | None:
    """Return the servers that own these parameters, connected; None where workers hold them."""
    if not job.group.owners:
        return None
    return remote.connect(job.group.rank, job.group.owners, layout.of_parameters(parameters, job.run.optim))


def _companions(job: TrainingJob, net: Block) -> dict[str, Companion]:
    """Return the companions of the net's weights: averages follow on what masks have left of these."""
    optim = job.run.optim
    masks = weight_masks.of_run(net, job.run.model, job.checkpoint is None)
    averaging = average_plan.of_run(optim, job.plan.length)
    return {
        **({MASKS: masks} if masks else {}),
        **({AVERAGES: Ema(net, optim.ema)} if optim.ema else {}),
        **({AVERAGE: WeightAverage(net, averaging)} if averaging else {}),
    }


def parameters_of(run: Run, net: Block) -> list[Parameter]:
    """Return the net's parameters, each with its own decay and rate; refuse tables that the store cannot sum."""
    trained = list(weights.named_parameters(net).values())
    if not run.optim.decay_all:
        exempt_from_decay(trained)
    layer_rates.scale_rates(net, run.optim)
    tables = sparse_rows.trained_tables(trained)
    if tables:
        store_checks.check_tables(run, [table.name for table in tables if not hasattr(table, "pull_rows")])
    return trained


def _grid(job: TrainingJob, parameters: Sequence[Parameter]) -> Grid | None:
    """Return a grid for the sums of gradients; None where a step has none, or adds as they come and says so."""
    run = job.run
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
    return new_grid(job, trained)


def new_grid(job: TrainingJob, trained: Sequence[Parameter], has_totals: bool = True) -> Grid:
    """Return a grid for the sums of the gradients of these parameters, over a step's micro-batches."""
    num_micro_batches = job.plan.batch.num_micro_batches
    shares = job.plan.batch.shares()
    sizes = [math.prod(each.shape) for each in trained]
    in_place = has_totals and max(shares) <= 1 and num_micro_batches <= 2
    return Grid(sizes, num_micro_batches, shares[job.group.rank] <= 1, has_totals, in_place)
