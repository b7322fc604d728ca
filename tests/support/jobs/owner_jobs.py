"""Servers that own weights and their workers, each a process; no process outlives the block."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path
from typing import Callable, Dict, Iterator, Sequence

from mxtrain.kvstore.owners.layout import Layout
from mxtrain.kvstore.owners.remote import RemoteOwners
from tests.support.jobs.allreduce_jobs import numbers_of
from tests.support.processes import warm_start

DEADLINE_SECONDS = 60.0
Worker = Callable[[int, RemoteOwners, Path], None]
Processes = Dict[str, warm_start.WarmFunction]


@contextlib.contextmanager
def job(
    folder: Path, num_workers: int, num_servers: int, layout: Layout, work: Worker
) -> Iterator[Processes]:
    """Processes by name, under way; each writes to FOLDER/<name>.log. A worker calls `work(rank, owners, folder)`."""
    numbers = numbers_of(["here"] * num_servers)
    functions = {
        **{
            f"server-{index}": functools.partial(_serve, numbers, index, num_workers)
            for index in range(num_servers)
        },
        **{
            f"worker-{rank}": functools.partial(_work, rank, numbers, layout, work, folder)
            for rank in range(num_workers)
        },
    }
    processes: Processes = {}
    with contextlib.ExitStack() as stack:
        for name, function in functions.items():
            processes[name] = warm_start.WarmFunction(function, folder / f"{name}.log")
            stack.callback(processes[name].wait)
            stack.callback(processes[name].kill)
        yield processes


def succeed(folder: Path, num_workers: int, num_servers: int, layout: Layout, work: Worker) -> None:
    """Have workers do their work to its end, and the servers end with them."""
    with job(folder, num_workers, num_servers, layout, work) as processes:
        codes = {name: process.wait(DEADLINE_SECONDS) for name, process in processes.items()}
    assert not any(codes.values()), "\n".join((folder / f"{name}.log").read_text() for name in codes)


def _serve(numbers: Sequence[int], index: int, num_workers: int) -> None:
    from mxtrain.kvstore.owners import server

    server.serve(numbers[index], index, len(numbers), num_workers, DEADLINE_SECONDS)


def _work(rank: int, numbers: Sequence[int], layout: Layout, work: Worker, folder: Path) -> None:
    from mxtrain.kvstore.owners import remote

    owners = remote.connect(rank, numbers, layout, DEADLINE_SECONDS)
    work(rank, owners, folder)
    owners.close()
