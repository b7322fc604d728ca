"""Security of a running job: nothing listens beyond this machine, and no message from inside it runs code."""

from __future__ import annotations

import os
import pickle
import socket
import stat
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from tests.support.hosts import ps_lite_messages
from tests.support.jobs.cluster_jobs import Processes, ended, job, wait_for
from tests.support.processes.sockets import listeners, unix_paths

LOOPBACK = "127.0.0.1"
NOBODY = 65534
REFUSED = "a message that was none of this job's reached its port; leave out DMLC_LOCAL=0"


def train_on(group: Any, folder: Path) -> None:
    """A worker whose optimizer is on the servers, at work until it is ended, but for while there is FOLDER/pause."""
    from mxtrain.kvstore.store import open_servers
    from mxtrain.runtime import mx

    store = open_servers("dist_async", group)
    store.init(0, mx.nd.ones((4,)))
    if group.rank == 0:
        store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5))
    group.sum(0)
    weight = mx.nd.zeros((4,))
    while True:
        if not (folder / "pause").exists():
            store.push(0, mx.nd.zeros((4,)))
            store.pull(0, out=weight)
            weight.wait_to_read()
        group.report_progress("training", 0)
        (folder / "trained").touch()
        time.sleep(0.01)


def fail_to_update(group: Any, folder: Path) -> None:
    from mxtrain.kvstore.store import open_servers
    from mxtrain.runtime import mx

    store = open_servers("dist_async", group)
    store.init(0, mx.nd.ones((4,)))
    if group.rank == 0:
        store.set_optimizer(mx.optimizer.Optimizer())  # which has no update
    group.sum(0)
    store.push(0, mx.nd.ones((4,)))
    store.pull(0, out=mx.nd.zeros((4,)))
    mx.nd.waitall()
    time.sleep(60)


class Touch:
    """Pickles as a command of the shell."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


@pytest.fixture
def over_tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that use TCP, as between hosts."""
    monkeypatch.setenv("DMLC_LOCAL", "0")


def test_a_hostile_optimizer_runs_nothing_and_ends_the_attempt_with_the_reason(
    tmp_path: Path, over_tcp: None
) -> None:
    ran = tmp_path / "ran"
    with job(tmp_path, train_on) as processes:
        wait_for(tmp_path / "trained", processes)
        (server,) = listeners(processes["server-0"].pid)
        ps_lite_messages.send_command(server, pickle.dumps(Touch(ran), 0))
        codes = ended(processes, seconds=20)

    assert set(codes.values()) == {75}, "it restarts, as after a death"
    assert not ran.exists()
    for name in codes:
        log = (tmp_path / f"{name}.log").read_text()
        assert "server-0: refused" in log and "posix.system" in log and REFUSED in log, name


@pytest.mark.parametrize(
    "struck",
    ["worker-1", *(pytest.param(each, marks=pytest.mark.slow) for each in ("server-0", "scheduler"))],
)
def test_a_process_whose_ps_lite_a_message_has_ended_is_named_within_seconds(
    struck: str, tmp_path: Path, over_tcp: None
) -> None:
    """Its ps-lite receives nothing from then on, and all others wait; --stall-timeout would end the job much later.

    The message comes in a pause of the workers: one that has a message at hand aborts in ps-lite, and is missed at
    once, as one that is killed.
    """
    with job(tmp_path, train_on) as processes:
        wait_for(tmp_path / "trained", processes)
        node = ps_lite_messages.address(processes[struck].pid)
        assert node is not None
        (tmp_path / "pause").touch()
        time.sleep(0.2)
        ps_lite_messages.send_terminate(node)
        (tmp_path / "pause").unlink()
        codes = ended(processes, seconds=15)
    assert set(codes.values()) == {75}
    for name in codes:
        log = (tmp_path / f"{name}.log").read_text()
        assert f"mxtrain.fit: {struck}: ps-lite has ended here: {REFUSED}" in log, name


def test_an_update_that_fails_on_a_server_ends_the_job_with_the_reason(tmp_path: Path) -> None:
    with job(tmp_path, fail_to_update) as processes:
        assert set(ended(processes).values()) == {2}
    assert "Optimizer failed on a server: NotImplementedError" in (tmp_path / "worker-1.log").read_text()


def test_nothing_listens_beyond_loopback(tmp_path: Path, over_tcp: None) -> None:
    with job(tmp_path, train_on) as processes:
        wait_for(tmp_path / "trained", processes)
        found = {name: listeners(process.pid) for name, process in processes.items()}
    assert all(found.values()), "each listens for ps-lite's messages"
    assert {listener.address for each in found.values() for listener in each} == {LOOPBACK}


@pytest.fixture(params=[0o000, pytest.param(0o022, marks=pytest.mark.slow)], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def test_on_one_machine_only_the_scheduler_listens_and_private_sockets_lose_their_names(
    tmp_path: Path, umask: None
) -> None:
    with job(tmp_path, train_late) as processes:
        paths = early_sockets(processes)
        for_memory = memory_socket(tmp_path)
        modes = {stat.S_IMODE(for_memory.stat().st_mode)} | {
            stat.S_IMODE(path.stat().st_mode) for path in paths
        }
        (tmp_path / "go").touch()
        wait_for(tmp_path / "trained", processes)
        found = {name: listeners(process.pid) for name, process in processes.items()}
        paths += unix_paths(processes["worker-1"].pid)
        assert len(paths) == len(processes), "each has a unix socket"
        paths.append(for_memory)
        end = time.monotonic() + 20
        while any(path.exists() for path in paths) and time.monotonic() < end:
            time.sleep(0.02)
        for process in processes.values():
            process.kill()
        workers_own = (tmp_path / "trained").stat().st_mode
    assert not any(path.exists() for path in paths), "none is left, however the processes end"
    assert {name for name, each in found.items() if each} == {"scheduler"}
    assert {listener.address for listener in found["scheduler"]} == {LOOPBACK}
    assert modes == {0o700}
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(workers_own) == 0o666 & ~mask, "what a worker writes later is as its user wants it"


def train_late(group: Any, folder: Path) -> None:
    """As `train_on`, but the second worker is not there for ps-lite before there is FOLDER/go."""
    if not group.rank:
        (folder / "numbers").write_text(" ".join(map(str, group.memory_sockets)))
    while group.rank and not (folder / "go").exists():
        time.sleep(0.01)
    train_on(group, folder)


def memory_socket(folder: Path) -> Path:
    """The socket at which the server waits for the workers' memory."""
    (number,) = (folder / "numbers").read_text().split()
    return Path("/tmp") / number


def early_sockets(processes: Processes) -> list[Path]:
    """The sockets of the processes that wait for the second worker, once each has its own."""
    end = time.monotonic() + 60
    paths: list[Path] = []
    while len(paths) < len(processes) - 1 and time.monotonic() < end:
        paths = [
            path for name, each in processes.items() if name != "worker-1" for path in unix_paths(each.pid)
        ]
        time.sleep(0.02)
    return paths


@pytest.mark.system
def test_another_user_cannot_connect_whatever_the_umask_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid():
        pytest.skip("needs root, to be another user")
    before = os.umask(0)
    try:
        with job(tmp_path, train_late) as processes, socket.socket(socket.AF_UNIX) as open_to_all:
            paths = [*early_sockets(processes), memory_socket(tmp_path)]
            open_folder = tmp_path / "open"
            open_folder.mkdir(mode=0o755)
            monkeypatch.chdir(open_folder)  # what lies above need not be open to others
            open_to_all.bind("socket")
            open_to_all.listen()
            reached = reached_by_nobody([*paths, Path("socket")])
            assert all(path.exists() for path in paths)
    finally:
        os.umask(before)
    assert len(paths) >= 4 and reached == [False] * len(paths) + [True]


def reached_by_nobody(paths: list[Path]) -> list[bool]:
    """For each socket, True if user nobody can connect; asked in a child process that becomes this user."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        for path in paths:
            with socket.socket(socket.AF_UNIX) as client:
                os.write(writing, bytes([client.connect_ex(str(path)) == 0]))
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    answers = os.read(reading, len(paths))
    os.close(reading)
    return list(map(bool, answers))
