"""A cluster on this machine whose workers run a function of a test in place of training.

python -m tests.support.cluster_jobs FOLDER MODULE:FUNCTION      one process of it; DMLC_ROLE says which
"""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, Dict, Iterator

from mxtrain import fit, runtime
from mxtrain.cluster import environment
from mxtrain.config import Layout, Output, Run
from mxtrain.launch.local import free_port
from mxtrain.train import join, node_info
from tests.support.commands import ROOT

DEADLINE_SECONDS = 100
Processes = Dict[str, "subprocess.Popen[bytes]"]


@contextlib.contextmanager
def job(
    folder: Path, work: Callable[..., None], num_workers: int = 2, num_servers: int = 1
) -> Iterator[Processes]:
    """The processes by their names, under way; none outlives the block. Each writes to FOLDER/<name>.log.

    Every worker calls `work(group, folder)`.
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
    line = [
        sys.executable,
        "-m",
        "tests.support.cluster_jobs",
        str(folder),
        f"{work.__module__}:{work.__name__}",
    ]
    processes: Processes = {}
    with contextlib.ExitStack() as stack:
        for role, count in counts.items():
            for number in range(count):
                name = role if role == "scheduler" else f"{role}-{number}"
                place = {"DMLC_ROLE": role, "MXTRAIN_NODE": name}
                log = stack.enter_context((folder / f"{name}.log").open("wb"))
                process = subprocess.Popen(
                    line, cwd=ROOT, env={**os.environ, **shared, **place}, stdout=log, stderr=log
                )
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


def _node(folder: str, work: str) -> None:
    run = Run(layout=Layout(kvstore="dist_async", start_timeout=DEADLINE_SECONDS), output=Output(out=folder))
    node = environment.node_spec(os.environ, run)
    assert node is not None
    if node.role != "worker":
        fit.serve(run, node)
        return
    runtime.load(threads=1)
    module, _, function = work.partition(":")
    with join.as_worker(run, node, {"versions": node_info.versions()}) as (_, group):
        getattr(importlib.import_module(module), function)(group, Path(folder))


if __name__ == "__main__":
    fit._as_node(lambda: _node(*sys.argv[1:]))
