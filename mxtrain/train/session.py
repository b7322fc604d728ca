"""A run from its description to its end, in this process: opened, joined, locked, resumed and trained.

Owns the order of these: all that can be refused is refused before mxnet is loaded. Whoever calls it, the command or a
Python program, sees to signals, the log and what is said at the end.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, NamedTuple, Sequence

from mxtrain import config
from mxtrain.cluster.environment import NodeSpec
from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup
from mxtrain.config.program_objects import NO_OBJECTS, ProgramObjects
from mxtrain.core.errors import Stop, Stopped, UsageError
from mxtrain.core.system import machine
from mxtrain.report.sinks import progress
from mxtrain.train import signals
from mxtrain.train.cluster import join, node_info
from mxtrain.train.observer import NOBODY, RunObserver

if TYPE_CHECKING:
    from mxtrain.checkpoint.directory import Checkpoint
    from mxtrain.checkpoint.input_identity import InputIdentity
    from mxtrain.data.augment.augment_choice import AugmentChoice
    from mxtrain.data.interfaces import Dataset, Records
    from mxtrain.runtime.types import Block
    from mxtrain.tasks.task import Score, Task
    from mxtrain.train.job import TrainingJob
    from mxtrain.train.next_action import Ending

logger = logging.getLogger("mxtrain.fit")


class RunInputs(NamedTuple):
    """The data sets that a run reads, the identity by which its checkpoints recognise them, and what is learnt."""

    train: Dataset
    val: Records | None
    identity: InputIdentity
    task: Task  # of the run as its flags say
    score: Score
    augment: Callable[[], AugmentChoice]  # of a run that begins; looks at some pictures, once


class Prepared(NamedTuple):
    """A run that has not been refused."""

    run: config.Run
    node: NodeSpec | None  # this worker of a cluster
    inputs: RunInputs
    node_info: dict[str, Any]  # that describes this worker to its cluster
    began: float  # when the attempt did, by time.monotonic()
    memory: int  # bytes that this host had left, before any process of the attempt took much


class Ended(NamedTuple):
    """A run that is over; one that ends early raises its reason, unless a hook has asked for it."""

    run: config.Run  # as it was trained
    out: Path
    score: Score
    net: Block
    resumed_from: Checkpoint | None
    ending: Ending
    is_first: bool  # of the workers, the one that says what is said once
    objects: ProgramObjects  # of the Python program, in the place of names in the run

    @property
    def has_happened(self) -> bool:
        """Return whether anything was left to do."""
        return self.ending != "nothing left to do"


def open_inputs(run: config.Run, begins: bool = True, objects: ProgramObjects = NO_OBJECTS) -> RunInputs:
    """Open the run's data sets, once the run itself is known to be possible here.

    `begins` is False for a process that its job has restarted, to which some checks no longer apply.
    """
    from mxtrain.checkpoint.input_identity import InputIdentity
    from mxtrain.config.values import step_range
    from mxtrain.data.augment import augment_choice
    from mxtrain.data.loading import run_plan
    from mxtrain.optim import average_plan
    from mxtrain.tasks import registry as tasks
    from mxtrain.tasks.metrics import metric_selection
    from mxtrain.train.open_data import open_source

    check(run, begins, objects)
    train, val = open_source("--train", run.data.train or "", run, objects=objects), None
    if run.data.val and not run.optim.overfit:  # with --overfit the training samples are what is judged
        val = open_source("--val", run.data.val, run, train, objects)
    task = tasks.of_data(run, train, val, objects)
    length = run_plan.run_length(run.optim, len(train))
    step_range.check_end(run.output.profile, length.num_steps)
    average_plan.of_run(run.optim, length)
    score = metric_selection.of_task(task).score
    identity = InputIdentity.of_run(run, train, val, task.description, score.name)
    augment = functools.partial(augment_choice.of_data, run.data, train, run.model.task)
    return RunInputs(train, val, identity, task, score, functools.lru_cache(maxsize=None)(augment))


def check(run: config.Run, begins: bool = True, objects: ProgramObjects = NO_OBJECTS) -> None:
    """Refuse a run that is not possible here, as far as its flags tell."""
    from mxtrain.config.checks import run_checks
    from mxtrain.tasks import registry as tasks

    run_checks.check(run, begins, objects)
    tasks.check_flags(run, objects)


def begun(run: config.Run, inputs: RunInputs, checkpoint: Checkpoint | None) -> config.Run:
    """Return `run` as it goes on from `checkpoint`, or as it begins with these inputs."""
    from mxtrain.checkpoint import resume

    if checkpoint is not None:
        return resume.with_saved_sums(run, checkpoint)
    return dataclasses.replace(run, data=dataclasses.replace(run.data, augment=inputs.augment().augment))


def job_of(
    run: config.Run,
    inputs: RunInputs,
    checkpoint: Checkpoint | None,
    group: WorkerGroup = SINGLE_WORKER,
    began: float | None = None,
    restarts: int = 0,
) -> TrainingJob:
    """Return what is trained when `run`, as `begun` has it, goes on from `checkpoint`, or begins.

    Another stream than the checkpoint's is described as that was.
    """
    from mxtrain.checkpoint.input_identity import InputIdentity
    from mxtrain.data.loading import run_plan
    from mxtrain.tasks import registry as tasks
    from mxtrain.train.job import TrainingJob

    identity = inputs.identity
    if checkpoint is not None:
        identity = identity.going_on_from(InputIdentity.of_checkpoint(checkpoint.state))
    task = tasks.of_description(run, identity.description, inputs.task.objects)
    if identity.description != inputs.identity.description and inputs.val is not None:
        with tasks.in_code_of(task):
            task.check(inputs.val)
    plan = run_plan.of_run(run, len(inputs.train))
    return TrainingJob(task, inputs.train, inputs.val, identity, plan, checkpoint, group, began, restarts)


def plan_lines(job: TrainingJob, inputs: RunInputs) -> list[str]:
    """Return lines that say what is going to happen: the data, the cut of the batch, the learning rate."""
    from mxtrain.optim import schedules

    is_chosen = job.checkpoint is None and not job.run.optim.overfit
    return [
        f"{inputs.train.path}: {len(inputs.train)} samples, {job.task.summary()}",
        *_source_lines(inputs.train),
        *([inputs.augment().line] if is_chosen and inputs.augment().line else []),
        str(job.plan.batch),
        schedules.summary(job.run.optim, job.plan.length, job.task.objects),
    ]


def _source_lines(train: Any) -> list[str]:
    """Return the line about a source that is not packed."""
    if not getattr(train, "is_source", False):
        return []
    from mxtrain.data.sources import packing_gain

    return [packing_gain.in_words(train)]


def with_packs(run: config.Run, stop_requests: Sequence[Stop] = ()) -> config.Run:
    """Return `run` with the packs that --pack makes, or has made, in the place of what --train and --val name.

    The first of `stop_requests` ends it; the same command goes on from there.
    """
    from mxtrain.data.packing import source_packs
    from mxtrain.data.sources.samples import is_source
    from mxtrain.train.open_data import labels_in

    def may_go_on() -> None:
        for stop in stop_requests[:1]:
            raise Stopped(str(stop).partition(";")[0], stop.exit_code)  # before any checkpoint

    def stoppable(items: Iterator[None], num_items: int, num_before: int, noun: str) -> Iterator[None]:
        shows = "console" in run.output.sinks
        for item in progress.with_progress(items, num_items, num_before, noun, shows):
            yield item
            may_go_on()

    data, is_made = run.data, False
    for name, text in (("train", data.train), ("val", data.val)):
        labels = labels_in(text, run) if text and is_source(text) else None
        if text and labels:
            wanted = source_packs.WantedPack(f"--{name}", Path(text), labels, data.skip_bad)
            path = source_packs.packed(wanted, Path(data.pack or ""), stoppable, may_go_on)
            changed: dict[str, Any] = {name: str(path)}
            data, is_made = dataclasses.replace(data, **changed), True
    if not is_made:
        raise UsageError(
            f"--pack {data.pack}: --train {data.train} is no folder, list or archive of pictures or texts on this "
            "machine; leave --pack out"
        )
    return dataclasses.replace(run, data=dataclasses.replace(data, pack=None))


def prepare(
    run: config.Run,
    node: NodeSpec | None = None,
    began: float | None = None,
    objects: ProgramObjects = NO_OBJECTS,
    stop_requests: Sequence[Stop] = (),
) -> Prepared:
    """Open what `run` needs, as the worker `node` of a cluster if it is not None; needs no mxnet.

    The attempt `began` then, by time.monotonic(); left out: now. The first of `stop_requests` ends what takes long.
    """
    began = time.monotonic() if began is None else began
    begins = node is None or not node.is_restart
    with join.reporting_failure(run, node):
        if run.data.pack:
            check(run, begins, objects)  # before hours of packing
            run = with_packs(run, stop_requests)
        inputs = open_inputs(run, begins, objects)
        info = node_info.collect(run, inputs.train, inputs.val, inputs.identity) if node else {}
    # What this process has already may be there for the run, if a run before it has left it.
    memory = machine.available_memory() + machine.swap_left() + machine.resident_bytes(os.getpid())
    return Prepared(run, node, inputs, info, began, memory)


def train(prepared: Prepared, stop_requests: list[Stop], observer: RunObserver = NOBODY) -> Ended:
    """Train what was prepared; what is added to `stop_requests` ends it. The first worker's `observer` looks at it."""
    from mxtrain.checkpoint import numeric_environment, resume, run_folder
    from mxtrain.core.system import kernels
    from mxtrain.tasks.metrics import metric_selection

    run, node, inputs, info, began, memory = prepared
    worker = join.as_worker(run, node, info, stop_requests)
    with worker as (assigned, group), run_folder.locked(assigned, group) as out:
        for remark in group.remarks:
            logger.warning("%s", remark)
        resume_point = resume.find(assigned, inputs.identity, group.local_workers)
        checkpoint = resume_point and resume_point.checkpoint
        run, assigned = (begun(each, inputs, checkpoint) for each in (run, assigned))
        job = job_of(assigned, inputs, checkpoint, group, began, node.attempt if node is not None else 0)
        if resume_point is None and node is not None and node.is_restart:
            logger.warning(
                "--out %s: holds no checkpoint of this job's earlier attempts; it begins at step 1 again", out
            )
        run_start = run_folder.RunStart(run, resume_point, group)
        for line in plan_lines(job, inputs):
            logger.info("%s", line)
        logger.info("CPU kernels: %s", kernels.in_words(numeric_environment.kernels_used()))
        on_progress = signals.progress_callback(group, stop_requests)
        job = _with_data_as_read(job, out, on_progress)
        _announce(job)

        from mxtrain import runtime

        runtime.load(group.local_workers, run.layout.threads or None)
        group.report_progress("start", -1)
        from mxtrain.train import loop
        from mxtrain.train.net import build_net, described

        described.check(job, memory, group.local_servers)
        with build_net.compiling(run.model.amp), build_net.own_settings_kept(run, job.task.objects):
            net, ending = loop.train(job, stop_requests, run_start, observer)
        if not run_start.has_happened:
            ending = "nothing left to do"
        score = metric_selection.of_task(job.task).score
        return Ended(run, out, score, net, checkpoint, ending, group.rank == 0, job.task.objects)


def _announce(job: TrainingJob) -> None:
    """Have the first samples requested where they lie in a store: they come while mxnet is loaded."""
    from mxtrain.data.loading import sample_requests
    from mxtrain.train import input_pipeline

    if getattr(job.train_set, "lookahead", 0):
        steps = range(job.checkpoint.state["step"] if job.checkpoint else 0, job.plan.length.num_steps)
        sample_requests.announce(job.train_set, input_pipeline.requests_of(job, steps))


def _with_data_as_read(job: TrainingJob, out: Path, on_progress: Callable[[bool], None]) -> TrainingJob:
    """Return the job with data as steps read it: a stream where the checkpoint left it, pictures through --cache."""
    from mxtrain.data.decode import pixel_cache
    from mxtrain.data.loading import sample_requests
    from mxtrain.data.user import streams
    from mxtrain.data.user.streams import Stream

    run, train, val = job.run, job.train_set, job.val_set
    if isinstance(train, Stream) and job.checkpoint is not None:
        streams.resume(train, job.checkpoint.state, run.optim.batch_size, on_progress)
    terminal = sys.stderr if job.group.rank == 0 and "console" in run.output.sinks else None
    on_pictures = progress.counted(on_progress, terminal, "decoding", "pictures")
    cached = functools.partial(pixel_cache.with_cache, run.data, out=out, on_progress=on_pictures)
    train = cached(train)  # type: ignore[arg-type]  # a user's DataLoader comes without --cache
    val = val and cached(val)
    if run.optim.overfit:
        val = sample_requests.OverfitRecords(run, train)
    return dataclasses.replace(job, train_set=train, val_set=val)
