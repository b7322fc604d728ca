"""A worker's way into its cluster and out of it.

Owns what becomes of a `Run` at the roll call, and what the other nodes are told when this one ends. Whatever goes
wrong here ends everybody: `watch.py` sees to that.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path
from typing import Any, Iterator, Sequence

from mxtrain.checkpoint import directory
from mxtrain.cluster import agent, coordinator, unix_sockets, verdicts
from mxtrain.cluster.agent import Member, Times
from mxtrain.cluster.environment import Cluster, engine_environment
from mxtrain.cluster.rendezvous import Go
from mxtrain.cluster.worker_group import ALONE, Group
from mxtrain.config import Run, layout
from mxtrain.core import errors
from mxtrain.core.errors import Stop, as_stop
from mxtrain.train import node_info, stop_requests


def times(run: Run) -> Times:
    return Times(run.layout.start_timeout, run.layout.silence_timeout, run.layout.stall_timeout)


@contextlib.contextmanager
def told(run: Run, cluster: Cluster | None) -> Iterator[None]:
    """A block before the roll call: that this node cannot take part, and why, is for all of them to know."""
    try:
        yield
    except (Exception, SystemExit) as error:  # a module of the user's may leave
        stop = as_stop(error) or Stop(errors.told(error))
        if cluster is not None:
            with contextlib.suppress(Stop):  # what comes back is the same reason
                agent.join(cluster, {"failed": [stop.exit_code, verdicts.readable(str(stop))]}, times(run))
        raise


@contextlib.contextmanager
def joined(
    run: Run, cluster: Cluster | None, words: dict[str, Any], wishes: Sequence[Stop] = ()
) -> Iterator[tuple[Run, Group]]:
    """The run as the roll call has settled it, and its workers, while the block lasts; alone where `cluster` is None.

    `words` are what the others have to know of this worker, as `card.of_worker` puts it; `wishes` end its waiting.
    """
    if cluster is None:
        yield run, ALONE
        return
    with agent.join(
        cluster, words, times(run), wishes
    ) as worker:  # what is raised in here ends all others too
        take_part(cluster, worker.go)
        try:
            yield settled(run, worker.go), worker
        except Stop as stop:
            if stop in stop_requests.MEANING.values():  # all workers have agreed on it, and have saved
                worker.finish(stop.exit_code, str(stop))
            raise
        worker.finish()


@contextlib.contextmanager
def helping(run: Run, cluster: Cluster) -> Iterator[Member]:
    """A scheduler or server among the others; the scheduler also holds their control lines."""
    if cluster.role == "scheduler":
        coordinator.oversee(cluster, times(run), run.layout.min_workers)
    with agent.join(cluster, {"versions": node_info.versions()}, times(run)) as helper:
        take_part(cluster, helper.go)
        yield helper


def take_part(cluster: Cluster, go: Go) -> None:
    """Leave in the environment what ps-lite looks for there."""
    number = unix_sockets.reserve() if go.over_sockets else None
    for name, value in engine_environment(cluster, go, number).items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def settled(run: Run, go: Go) -> Run:
    """With as many workers as came, the same micro-batches nevertheless, and from where all of them begin."""
    optim = dataclasses.replace(run.optim, micro_batch=layout.batch_plan(run).micro_batch, accumulate=0)
    placed = dataclasses.replace(run.layout, num_workers=go.num_workers, num_servers=go.num_servers)
    keep = run.keep
    if go.resume_step >= 0:
        path = directory.path_of(Path(keep.out) / "checkpoints", go.resume_step)
        keep = dataclasses.replace(keep, resume=str(path))
    elif keep.resume == "auto":  # what this disk may have, others have not
        keep = dataclasses.replace(keep, resume="never")
    if go.several_disks:  # while one disk has the newest, another may still have only the one before
        keep = dataclasses.replace(keep, keep_last=max(keep.keep_last, 2))
    return dataclasses.replace(run, optim=optim, layout=placed, keep=keep)
