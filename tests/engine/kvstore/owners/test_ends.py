"""How jobs whose weights lie on servers end: workers and servers that are late, killed or wrong, and what is left."""

from __future__ import annotations

import functools
import gc
import json
import math
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.cluster import unix_sockets
from mxtrain.config import Optim
from mxtrain.core.errors import RestartMe
from mxtrain.kvstore.owners import layout as layouts
from mxtrain.kvstore.owners import remote, server
from mxtrain.kvstore.owners.owner import GradientSum
from mxtrain.kvstore.owners.remote import RemoteOwners
from mxtrain.optim.sums.grid import NO_BLOCKS
from mxtrain.optim.update import Update
from mxtrain.runtime import mx
from tests.support.jobs.allreduce_jobs import numbers_of
from tests.support.jobs.owner_jobs import DEADLINE_SECONDS, Threads, job, succeed

SHAPES = [(300_000,), (7,), (200_000,)]
SIZES = list(map(math.prod, SHAPES))
NOTICED_SECONDS = 2.0
PHASES = ("push", "finish", "apply", "pull")
STOPPING = 1  # the step in which one stops
slow = pytest.mark.slow


def layout() -> layouts.Layout:
    parameters = [mx.gluon.Parameter(f"p{index}", shape=shape) for index, shape in enumerate(SHAPES)]
    return layouts.of_parameters(parameters, Optim(optimizer="sgd"))


def take_step(owners: RemoteOwners, before: Any = lambda phase: None, rate: float = 0.1) -> list[np.ndarray]:
    before("push")
    for index, size in enumerate(SIZES):
        owners.push(index, GradientSum(np.ones(size, np.float32), *NO_BLOCKS))
    before("finish")
    owners.finish()
    before("apply")
    owners.apply(Update(rate, 1.0))
    before("pull")
    weights = [np.empty(size, np.float32) for size in SIZES]
    owners.pull(range(len(SIZES)), weights).wait()
    return weights


def train_until_failure(
    phase: str, stopping: int, with_child: bool, rank: int, owners: RemoteOwners, folder: Path
) -> None:
    """Take steps; worker `stopping` stops before a phase of one until it is told to go on, or killed."""
    if with_child and os.fork() == 0:  # as of a loader; it outlives its parent
        time.sleep(2 * NOTICED_SECONDS)
        os._exit(0)
    step = 0

    def before(reached: str) -> None:
        if (rank, step, reached) == (stopping, STOPPING, phase):
            (folder / "stopped").write_text("")
            while not (folder / "go").exists():
                time.sleep(0.01)

    try:
        while True:
            take_step(owners, before)
            step += 1
    except RestartMe as error:
        (folder / f"{rank}.json").write_text(json.dumps([time.monotonic(), str(error)]))
        raise


def kill_in(folder: Path, phase: str, victim: str, num_workers: int, num_servers: int) -> None:
    """Kill a process while a worker, itself or another, is about to enter a phase: all others name it, at once."""
    stopping = int(victim[-1]) if victim.startswith("worker") else num_workers - 1
    work = functools.partial(train_until_failure, phase, stopping, phase == "finish")
    with job(folder, num_workers, num_servers, layout(), work) as processes:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (folder / "stopped").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(0.1)  # until the others wait
        processes[victim].kill()
        killed = time.monotonic()
        (folder / "go").write_text("")
        others = [name for name in processes if name != victim]
        assert all(processes[name].wait(DEADLINE_SECONDS) for name in others)
        assert time.monotonic() - killed < NOTICED_SECONDS + 1
    for name in others:
        assert f"RestartMe: {victim}: " in (folder / f"{name}.log").read_text(), name
        if name.startswith("worker"):
            noticed, text = json.loads((folder / f"{name[-1]}.json").read_text())
            assert text.startswith(f"{victim}: ")
            assert noticed - killed < NOTICED_SECONDS


@pytest.mark.parametrize(
    ("phase", "victim"),
    [
        pytest.param("finish", "server-0", marks=slow),
        ("push", "worker-1"),
        *(pytest.param(phase, victim, marks=slow) for phase in PHASES for victim in ("worker-0", "server-1")),
    ],
)
def test_all_others_name_who_is_killed(tmp_path: Path, phase: str, victim: str) -> None:
    kill_in(tmp_path, phase, victim, num_workers=2, num_servers=2)


@slow
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("victim", ["worker-2", "server-2"])
def test_all_of_many_others_name_who_is_killed(tmp_path: Path, phase: str, victim: str) -> None:
    kill_in(tmp_path, phase, victim, num_workers=3, num_servers=3)


def take_unlike_steps(rank: int, owners: RemoteOwners, folder: Path) -> None:
    take_step(owners)
    with pytest.raises(RestartMe, match="server-0: "):
        take_step(owners, rate=0.1 if rank else 0.2)


def test_workers_that_disagree_end_the_job(tmp_path: Path) -> None:
    with job(tmp_path, 2, 1, layout(), take_unlike_steps) as processes:
        codes = {name: process.wait(DEADLINE_SECONDS) for name, process in processes.items()}
    assert codes.pop("server-0") and not any(codes.values())
    assert "workers disagree on what becomes of step 1" in (tmp_path / "server-0.log").read_text()


def leave_early(rank: int, owners: RemoteOwners, folder: Path) -> None:
    take_step(owners)
    if rank:
        with pytest.raises(RestartMe, match="worker-0: "):
            take_step(owners)


def test_a_worker_that_leaves_before_the_others_is_named(tmp_path: Path) -> None:
    with job(tmp_path, 2, 2, layout(), leave_early) as processes:
        codes = {name: process.wait(DEADLINE_SECONDS) for name, process in processes.items()}
    assert not codes["worker-0"] and not codes["worker-1"]
    assert codes["server-0"] or codes["server-1"]


def exit_without_close(rank: int, owners: RemoteOwners, folder: Path) -> None:
    owners.close = lambda: None  # type: ignore[method-assign]
    take_step(owners)


def test_a_process_that_ends_leaves_in_peace(tmp_path: Path) -> None:
    succeed(tmp_path, 2, 2, layout(), exit_without_close)


def held() -> tuple[int, int]:
    """How many files are open, and threads run, in this process, without what earlier tests left to be collected."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")), threading.active_count()


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    numbers, threads, before = numbers_of("aa"), Threads(), held()
    for index, number in enumerate(numbers):
        threads.start(f"server-{index}", server.serve, number, index, 2, 1, 20.0, str(tmp_path))
    owners = remote.connect(0, numbers, layout(), 20.0)
    assert not any((unix_sockets.FOLDER / str(number)).exists() for number in numbers)
    weights = take_step(owners)
    assert held() > before
    owners.close()
    owners.close()
    threads.join()
    assert all((array == np.float32(-0.1)).all() for array in weights)
    assert set(threads.results.values()) == {None} and not list(tmp_path.iterdir())
    del owners
    assert held() == before


def test_a_missing_worker_and_a_missing_server_are_named() -> None:
    numbers, threads = numbers_of("aaa"), Threads()
    for index, number in enumerate(numbers[:2]):
        threads.start(f"server-{index}", server.serve, number, index, 2, 2, 0.5)
    threads.start("worker-0", remote.connect, 0, numbers[:2], layout(), 20.0)
    threads.start("worker-1", remote.connect, 1, numbers[2:], layout(), 0.3)
    threads.join()
    assert all(isinstance(result, RestartMe) for result in threads.results.values())
    texts = {name: str(result) for name, result in threads.results.items()}
    assert all(
        texts[name].startswith("worker-1: not connected") for name in ("server-0", "server-1", "worker-0")
    )
    assert texts["worker-1"].startswith("server-0: not connected")
    assert not any((unix_sockets.FOLDER / str(number)).exists() for number in numbers)
