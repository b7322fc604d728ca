"""A worker's way into its cluster and out of it.

Owns what becomes of a `Run` at the roll call, and what the other nodes are told when this one ends. Whatever goes
wrong here ends everybody: `cluster/coordinator.py` sees to that.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path
from typing import Any, Iterator, Sequence

from mxtrain.checkpoint import directory
from mxtrain.cluster import agent, coordinator, unix_sockets, verdicts
from mxtrain.cluster.agent import Agent, Timeouts
from mxtrain.cluster.environment import NodeSpec, engine_environment
from mxtrain.cluster.rendezvous import Assignment
from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup
from mxtrain.config import Run, batch_plan
from mxtrain.core import errors
from mxtrain.core.errors import Stop, as_stop
from mxtrain.train import node_info, signals


def times(run: Run) -> Timeouts:
    return Timeouts(run.layout.start_timeout, run.layout.silence_timeout, run.layout.stall_timeout)


@contextlib.contextmanager
def told(run: Run, cluster: NodeSpec | None) -> Iterator[None]:
    """A block before the roll call: that this node cannot take part, and why, is for all of them to know."""
    try:
        yield
    except (Exception, SystemExit) as error:  # a module of the user's may leave
        stop = as_stop(error) or Stop(errors.message_of(error))
        if cluster is not None:
            with contextlib.suppress(Stop):  # what comes back is the same reason
                agent.join(cluster, {"failed": [stop.exit_code, verdicts.readable(str(stop))]}, times(run))
        raise


@contextlib.contextmanager
def joined(
    run: Run, cluster: NodeSpec | None, words: dict[str, Any], stop_requests: Sequence[Stop] = ()
) -> Iterator[tuple[Run, WorkerGroup]]:
    """The run as the roll call has settled it, and its workers, while the block lasts; alone where `cluster` is None.

    `words` are what the others have to know of this worker, as `card.of_worker` puts it; `wishes` end its waiting.
    """
    if cluster is None:
        yield run, SINGLE_WORKER
        return
    with agent.join(
        cluster, words, times(run), stop_requests
    ) as worker:  # what is raised in here ends all others too
        take_part(cluster, worker.go)
        try:
            yield settled(run, worker.go), worker
        except Stop as stop:
            if stop in signals.MEANING.values():  # all workers have agreed on it, and have saved
                worker.finish(stop.exit_code, str(stop))
            raise
        worker.finish()


@contextlib.contextmanager
def helping(run: Run, cluster: NodeSpec) -> Iterator[Agent]:
    """A scheduler or server among the others; the scheduler also holds their control lines."""
    if cluster.role == "scheduler":
        coordinator.oversee(cluster, times(run), run.layout.min_workers)
    with agent.join(cluster, {"versions": node_info.versions()}, times(run)) as helper:
        take_part(cluster, helper.go)
        yield helper


def take_part(cluster: NodeSpec, go: Assignment) -> None:
    """Leave in the environment what ps-lite looks for there."""
    number = unix_sockets.reserve() if go.over_sockets else None
    for name, value in engine_environment(cluster, go, number).items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def settled(run: Run, go: Assignment) -> Run:
    """With as many workers as came, the same micro-batches nevertheless, and from where all of them begin."""
    optim = dataclasses.replace(run.optim, micro_batch=batch_plan.of_run(run).micro_batch, accumulate=0)
    placed = dataclasses.replace(run.layout, num_workers=go.num_workers, num_servers=go.num_servers)
    output = run.output
    if go.resume_step >= 0:
        path = directory.path_of(Path(output.out) / "checkpoints", go.resume_step)
        output = dataclasses.replace(output, resume=str(path))
    elif output.resume == "auto":  # what this disk may have, others have not
        output = dataclasses.replace(output, resume="never")
    if go.several_disks:  # while one disk has the newest, another may still have only the one before
        output = dataclasses.replace(output, keep_last=max(output.keep_last, 2))
    return dataclasses.replace(run, optim=optim, layout=placed, output=output)
