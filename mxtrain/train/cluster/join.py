"""A process's entry into its cluster, and what it reports to the others when it ends.

Owns the changes that the rendezvous makes to a `Run` and to the environment. Does not own the end of the whole job
after a failure (`cluster/coordinator.py`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path
from typing import Any, Iterator, Sequence

from mxtrain.checkpoint import directory
from mxtrain.cluster import agent, coordinator, ps_lite, unix_sockets, verdicts
from mxtrain.cluster.admission import rendezvous
from mxtrain.cluster.admission.assignment import Assignment
from mxtrain.cluster.agent import Agent
from mxtrain.cluster.channel import Timeouts
from mxtrain.cluster.environment import NodeSpec
from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup
from mxtrain.config import Run, batch_plan
from mxtrain.config.checks import store_checks
from mxtrain.core import errors
from mxtrain.core.errors import Stop, as_stop
from mxtrain.core.system import wheels
from mxtrain.train import signals
from mxtrain.train.cluster import node_info


def timeouts(run: Run) -> Timeouts:
    """Return the limits that the flags of `run` set."""
    return Timeouts(run.layout.start_timeout, run.layout.silence_timeout, run.layout.stall_timeout)


@contextlib.contextmanager
def reporting_failure(run: Run, node: NodeSpec | None) -> Iterator[None]:
    """A block before the rendezvous; an exception in it joins the rendezvous only to report this node's failure.

    Without a cluster, `node` is None, and nothing is reported.
    """
    try:
        yield
    except (Exception, SystemExit) as error:  # a module of the user's may exit
        stop = as_stop(error) or Stop(errors.message_of(error))
        if node is not None:
            failed = [stop.exit_code, verdicts.as_one_line(str(stop))]
            with contextlib.suppress(Stop):  # the verdict that comes back has the same reason
                agent.join(node, {"failed": failed}, timeouts(run))
        raise


@contextlib.contextmanager
def as_worker(
    run: Run, node: NodeSpec | None, info: dict[str, Any], stop_requests: Sequence[Stop] = ()
) -> Iterator[tuple[Run, WorkerGroup]]:
    """A block in which this process is a worker; yields the run as the rendezvous has changed it, and the workers.

    `info` holds fields of NodeInfo (`node_info.py`); the first of `stop_requests` ends the rendezvous. Without a
    cluster, `node` is None, and the run stays as it is. An exception in the block ends all other processes too.
    """
    if node is None:
        yield run, SINGLE_WORKER
        return
    with agent.join(node, info, timeouts(run), stop_requests) as worker:
        export_ps_environment(node, worker.assignment)
        try:
            yield apply_assignment(run, worker.assignment), worker
        except Stop as stop:
            if stop in signals.STOPS.values():  # all workers have agreed on it, and have saved
                worker.finish(stop.exit_code, str(stop))
            raise
        worker.finish()


@contextlib.contextmanager
def as_server(run: Run, node: NodeSpec) -> Iterator[Agent]:
    """A block in which this process is a server or the scheduler; the scheduler also coordinates the job."""
    info = {"versions": wheels.versions(), "config": node_info.explicit_flags(run)}
    gateway = None
    if node.role == "scheduler":
        store_checks.check_min_workers(run.layout)
        gateway = coordinator.start(
            node, rendezvous.describe(node, info), timeouts(run), run.layout.min_workers
        )
    with agent.join(node, info, timeouts(run), gateway=gateway) as server:
        export_ps_environment(node, server.assignment)
        yield server


def export_ps_environment(node: NodeSpec, assignment: Assignment) -> None:
    """Set the variables that ps-lite reads in this process's environment, if the job has any."""
    if not assignment.has_ps_lite:
        return
    socket_number = assignment.socket_number or None
    if socket_number is None and assignment.uses_unix_sockets:
        socket_number = unix_sockets.reserve()
    if socket_number is not None:  # but the scheduler's is where all look for it
        number = assignment.ps_port if node.role == "scheduler" else socket_number
        unix_sockets.expect(number, ps_lite.num_peers(node.role, assignment))
    for name, value in ps_lite.environment(node, assignment, socket_number).items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def apply_assignment(run: Run, assignment: Assignment) -> Run:
    """Return `run` with the workers that came, the same micro-batches nevertheless, and the common resume step."""
    optim = run.optim
    if (
        optim.accumulate
    ):  # a default follows from the batch alone, and from the checkpoint that a run goes on from
        optim = dataclasses.replace(optim, micro_batch=batch_plan.of_run(run).micro_batch, accumulate=0)
    num_servers = assignment.num_servers or run.layout.num_servers
    placed = dataclasses.replace(run.layout, num_workers=assignment.num_workers, num_servers=num_servers)
    output = run.output
    if assignment.resume_step >= 0:
        path = directory.path_of(Path(output.out) / "checkpoints", assignment.resume_step)
        output = dataclasses.replace(output, resume=str(path))
    elif output.resume == "auto":  # other disks lack the checkpoints that this one may have
        output = dataclasses.replace(output, resume="never")
    if assignment.several_disks:
        # A worker waits for its write when the next one is due: by then another disk may have both, and the one before
        # is what they have in common.
        output = dataclasses.replace(output, keep_last=max(output.keep_last, 3))
    return dataclasses.replace(run, optim=optim, layout=placed, output=output)
