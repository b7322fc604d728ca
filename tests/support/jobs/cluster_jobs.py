"""A cluster on this machine whose workers run a function of a test in place of training."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from pathlib import Path
from typing import Callable, Dict, Iterator

from mxtrain import fit
from mxtrain.cluster import environment
from mxtrain.config import Layout, Output, Run
from mxtrain.core.system import wheels
from mxtrain.launch.local import free_port
from mxtrain.train.cluster import join, serving
from tests.support.commands import ROOT
from tests.support.processes import warm_start

DEADLINE_SECONDS = 100
Processes = Dict[str, warm_start.WarmFunction]


@contextlib.contextmanager
def job(
    folder: Path, work: Callable[..., None], num_workers: int = 2, num_servers: int = 1
) -> Iterator[Processes]:
    """The processes by their names, under way; none outlives the block. Each writes to FOLDER/<name>.log.

    Every worker calls `work(group, folder)`. Without servers they sum among themselves.
    """
    counts = {"scheduler": 1, "server": num_servers, "worker": num_workers}
    shared = {
        **{
            "DMLC_PS_ROOT_URI": "127.0.0.1",
            "DMLC_PS_ROOT_PORT": str(free_port()),
            "MXTRAIN_JOB": str(folder),
        },
        **{"DMLC_NUM_WORKER": str(num_workers), "DMLC_NUM_SERVER": str(num_servers)},
    }
    processes: Processes = {}
    with contextlib.ExitStack() as stack:
        for role, count in counts.items():
            for number in range(count):
                name = role if role == "scheduler" else f"{role}-{number}"
                place = {"DMLC_ROLE": role, "MXTRAIN_NODE": name}
                log = folder / f"{name}.log"
                node = functools.partial(_be_node, folder, work)
                process = warm_start.WarmFunction(node, log, **shared, **place)
                stack.callback(process.wait)
                stack.callback(process.kill)
                processes[name] = process
        yield processes


def ended(processes: Processes, seconds: float = DEADLINE_SECONDS) -> dict[str, int]:
    """The exit code of each, once all have ended."""
    deadline = time.monotonic() + seconds
    return {name: each.wait(max(0.1, deadline - time.monotonic())) for name, each in processes.items()}


def wait_for(path: Path, processes: Processes) -> None:
    """Wait until a worker has made that file."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not path.exists():
        over = [name for name, process in processes.items() if process.poll() is not None]
        assert not over, f"{over[0]} has ended:\n{(path.parent / (over[0] + '.log')).read_text()}"
        assert time.monotonic() < deadline, f"no {path} within {DEADLINE_SECONDS} s"
        time.sleep(0.05)


def _be_node(folder: Path, work: Callable[..., None]) -> None:
    os.chdir(ROOT)
    fit._as_node(lambda: _node(folder, work))


def _node(folder: Path, work: Callable[..., None]) -> None:
    kvstore = "dist_async" if os.environ["DMLC_NUM_SERVER"] != "0" else "allreduce"
    layout = Layout(kvstore=kvstore, start_timeout=DEADLINE_SECONDS)
    run = Run(layout=layout, output=Output(out=str(folder)))
    node = environment.node_spec(os.environ, run)
    assert node is not None
    if node.role != "worker":
        serving.serve(run, node)
        return
    with join.as_worker(run, node, {"versions": wheels.versions()}) as (_, group):
        work(group, folder)
