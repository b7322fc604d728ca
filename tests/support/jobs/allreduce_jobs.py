"""Workers of one `AllreduceStore`, each a process that calls a function of a test; no process outlives the block."""

from __future__ import annotations

import contextlib
import functools
import random
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

from mxtrain.cluster.gateway.routes import NUMBERS
from tests.support.processes import warm_start

DEADLINE_SECONDS = 60.0
Worker = Callable[[Any, Path], None]


def numbers_of(hosts: Sequence[str]) -> list[int]:
    """Numbers of sockets, for a worker on each of the hosts."""
    return random.SystemRandom().sample(NUMBERS, len(hosts))


@contextlib.contextmanager
def workers(folder: Path, hosts: Sequence[str], work: Worker) -> Iterator[list[warm_start.WarmFunction]]:
    """Processes by rank, under way; each calls `work(store, folder)` and writes to FOLDER/<rank>.log."""
    numbers = numbers_of(hosts)
    with contextlib.ExitStack() as stack:
        processes = []
        for rank in range(len(hosts)):
            worker = functools.partial(_be_worker, rank, numbers, list(hosts), work, folder)
            process = warm_start.WarmFunction(worker, folder / f"{rank}.log")
            stack.callback(process.wait)
            stack.callback(process.kill)
            processes.append(process)
        yield processes


def succeed(folder: Path, hosts: Sequence[str], work: Worker) -> None:
    """Have workers on these hosts do their work to its end."""
    with workers(folder, hosts, work) as processes:
        codes = [process.wait(DEADLINE_SECONDS) for process in processes]
    assert not any(codes), "\n".join((folder / f"{rank}.log").read_text() for rank in range(len(hosts)))


def _be_worker(rank: int, numbers: Sequence[int], hosts: Sequence[str], work: Worker, folder: Path) -> None:
    from mxtrain.kvstore.allreduce.store import AllreduceStore

    work(AllreduceStore(rank, numbers, hosts, DEADLINE_SECONDS), folder)
