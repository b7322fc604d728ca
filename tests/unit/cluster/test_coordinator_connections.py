"""Connections to the scheduler's port: late, twice, of another job, with garbage, or over a network that is cut."""

from __future__ import annotations

import json
import select
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from mxtrain.cluster.agent import Agent
from mxtrain.cluster.channel import HEADER, MAGIC, Timeouts
from mxtrain.cluster.environment import LOOPBACK
from mxtrain.core.errors import DataError
from mxtrain.launch.local import free_port
from tests.support.jobs import control_plane

SHORT = Timeouts(start=1.0, silence=5, stall=5)


def frame(message: Any) -> bytes:
    text = json.dumps(message).encode()
    return HEADER.pack(MAGIC, len(text), 0) + text


WORKER = {"role": "worker", "node": "worker-1", "host": "h", "boot_id": "", "pid": 1}
GARBAGE = {
    "a port scanner": b"",
    "a browser": b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    "noise": bytes(range(256)) * 64,
    "a huge message": HEADER.pack(MAGIC, 1 << 31, 0),
    "huge values": HEADER.pack(MAGIC, 2, 1 << 31) + b"{}",
    "no JSON": HEADER.pack(MAGIC, 4, 0) + b"oops",
    "a pit of brackets": HEADER.pack(MAGIC, 500_000, 0) + b"[" * 500_000,
    "no object": frame([1, 2]),
    "no kind": frame({}),
    "no join message": frame({"kind": "fail", "exit_code": 3, "reason": "go away"}),
    "no node info": frame({"kind": "join"}),
    "a wrong node info": frame({"kind": "join", "node_info": {"role": "worker", "node": [], "pid": "x"}}),
    "a node without a name": frame(
        {
            "kind": "join",
            "node_info": {"role": "worker", "node": "root\n", "host": "h", "boot_id": "", "pid": 1},
        }
    ),
    "counts that are a book": frame({"kind": "join", "counts": "\x1b[31m\n" * 60_000, "node_info": WORKER}),
    "too many counts": frame({"kind": "join", "counts": [2, 1, 0], "node_info": WORKER}),
}


def test_garbage_is_closed_and_the_job_goes_on(tmp_path: Path) -> None:
    def work(me: Agent) -> None:
        while not me.sum([(tmp_path / "enough").exists()])[0]:
            time.sleep(0.01)
        me.finish()

    job = control_plane.start_job(tmp_path, {"worker-0": work, "worker-1": work})
    port = job_port(job)
    clients = []
    for sent in GARBAGE.values():
        client = connect(port)
        client.sendall(sent)
        clients.append(client)
    flood = [connect(port) for _ in range(100)]  # more than it accepts
    for name, client in zip(GARBAGE, clients):
        if GARBAGE[name]:
            assert is_closed(client), name
    (tmp_path / "enough").touch()
    assert set(control_plane.exit_codes(job).values()) == {0}, [node.output for node in job.values()]
    for client in [*clients, *flood]:
        client.close()


def job_port(job: dict[str, control_plane.Node]) -> int:
    return job["scheduler"].port


def connect(port: int) -> socket.socket:
    deadline = time.monotonic() + 10
    while True:
        try:
            return socket.create_connection((LOOPBACK, port), timeout=5)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def is_closed(client: socket.socket) -> bool:
    try:
        while client.recv(1 << 16):
            pass
    except ConnectionResetError:
        return True
    except socket.timeout:
        return False
    return True


@pytest.mark.parametrize(
    ("changes", "code", "reason"),
    [
        ({"token": "guessed"}, 2, "is of another job"),
        ({"token": "another's", "is_restart": True}, 75, "is of another job"),
        ({"num_workers": 4, "is_restart": True}, 75, "is configured for [4, 1]"),
        ({"attempt": 3}, 75, "attempt 3"),
        ({"num_workers": 3}, 2, "is configured for [3, 1] workers and servers, the scheduler of [2, 1]"),
        ({"name": "worker-1"}, 75, "comes as a second worker-1"),
        ({"name": "worker-2"}, 2, "is one too many"),
        ({"name": "server-1"}, 2, "is one too many"),
    ],
)
def test_a_process_that_does_not_belong_is_refused_and_the_job_goes_on(
    tmp_path: Path, changes: dict[str, Any], code: int, reason: str
) -> None:
    def work(me: Agent) -> None:
        (tmp_path / me.name).touch()
        while not me.sum([(tmp_path / "enough").exists()])[0]:
            time.sleep(0.01)
        me.finish()

    job = control_plane.start_job(tmp_path, {"worker-0": work, "worker-1": work})
    control_plane.wait_for_file(tmp_path / "worker-0")
    name = changes.pop("name", "worker-1")
    extra = control_plane.Node(tmp_path, control_plane.node_spec(name, job_port(job), **changes))
    assert extra.exit_code() == code
    assert reason in extra.output and extra.output.count("\n") == 1
    (tmp_path / "enough").touch()
    assert set(control_plane.exit_codes(job).values()) == {0}
    assert reason in job["scheduler"].output


def test_missing_processes_are_named(tmp_path: Path) -> None:
    port = free_port()
    job = control_plane.start_nodes(tmp_path, port, "scheduler", "server-0", "worker-0", timeouts=SHORT)
    later = {
        "scheduler": control_plane.Node(
            tmp_path,
            control_plane.node_spec("scheduler", free_port(), is_restart=True),
            timeouts=SHORT,
        )
    }
    assert set(control_plane.exit_codes(job, 5).values()) == {2}
    for node in job.values():
        assert "worker-1 did not come to 127.0.0.1:" in node.output and "worker-0 (" in node.output
    assert control_plane.exit_codes(later) == {
        "scheduler": 75
    }  # it has started before: another attempt may help
    assert "server-0 and worker-0 and worker-1 did not come to" in later["scheduler"].output


def test_a_worker_without_a_scheduler_ends_in_time(tmp_path: Path) -> None:
    nobody = control_plane.Node(tmp_path, control_plane.node_spec("worker-0", free_port()), timeouts=SHORT)
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen(1)
        lost = control_plane.Node(
            tmp_path, control_plane.node_spec("worker-1", listener.getsockname()[1]), timeouts=SHORT
        )
        connection, _ = listener.accept()
        connection.sendall(b"220 mail.example.org ESMTP\r\n")
        later = control_plane.Node(
            tmp_path,
            control_plane.node_spec("worker-0", listener.getsockname()[1], is_restart=True),
            timeouts=SHORT,
        )
        other_connection, _ = listener.accept()
        other_connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        mute = control_plane.Node(
            tmp_path,
            control_plane.node_spec("server-0", listener.getsockname()[1]),
            timeouts=Timeouts(1.2, silence=0.8, stall=5),
        )
        alone = control_plane.Node(  # nobody but its own supervisor would start it again
            tmp_path,
            control_plane.node_spec("server-0", listener.getsockname()[1], memory=tmp_path / ".job"),
            timeouts=Timeouts(1.2, silence=0.8, stall=5),
        )
        assert later.exit_code(4) == 75 and "is no scheduler of mxtrain" in later.output
        assert lost.exit_code(4) == 2 and "is no scheduler of mxtrain" in lost.output
        assert mute.exit_code(5) == 75 and "heard nothing from the scheduler" in mute.output
        assert alone.exit_code(5) == 2 and "has said nothing in 0.8 s" in alone.output
        assert (
            f"127.0.0.1:{listener.getsockname()[1]}" in alone.output and "DMLC_PS_ROOT_PORT" in alone.output
        )
        connection.close()
        other_connection.close()
    assert nobody.exit_code(5) == 2 and "worker-0: no scheduler at 127.0.0.1:" in nobody.output


@pytest.mark.parametrize("has_scheduler", [False, True])
def test_a_signal_ends_the_wait_for_the_others(tmp_path: Path, has_scheduler: bool) -> None:
    port = free_port()
    scheduler = control_plane.start_nodes(tmp_path, port, *["scheduler"] * has_scheduler)
    waiting = control_plane.Node(tmp_path, control_plane.node_spec("worker-0", port), handles_signals=True)
    time.sleep(1)
    waiting.send(signal.SIGTERM)
    assert waiting.exit_code(2) == 143 and "stopped by SIGTERM" in waiting.last_words, waiting.output
    if has_scheduler:
        assert scheduler["scheduler"].exit_code(2) == 143, "a stop request to one stops all, as it does later"


def test_a_reason_is_one_line_of_bounded_length(tmp_path: Path) -> None:
    def fail(me: Agent) -> None:
        raise DataError("\x1b[31mred\n" + "long" * 300_000)

    job = control_plane.start_job(tmp_path, {"worker-1": fail, "worker-0": control_plane.wait})
    assert set(control_plane.exit_codes(job, 4).values()) == {3}
    for node in job.values():
        assert (
            node.last_words.startswith("mxtrain.fit: worker-1: [31mred long")
            and node.last_words.count("\n") == 1
        )
        assert len(node.last_words) < 5000


def test_a_second_job_on_the_same_port_is_refused(tmp_path: Path) -> None:
    port = free_port()
    first = control_plane.start_nodes(tmp_path, port, "scheduler", "server-0", "worker-0")
    control_plane.Node(
        tmp_path, control_plane.node_spec("worker-0", port, token="waits until the first listens")
    ).exit_code()
    second = {
        name: control_plane.Node(tmp_path, control_plane.node_spec(name, port, token="other"))
        for name in ("scheduler", "worker-1")
    }
    assert set(control_plane.exit_codes(second).values()) == {2}
    assert "another program has this port" in second["scheduler"].output
    assert "is of another job" in second["worker-1"].output
    first.update(control_plane.start_nodes(tmp_path, port, "worker-1"))
    assert set(control_plane.exit_codes(first).values()) == {0}


def test_workers_may_come_before_the_scheduler(tmp_path: Path) -> None:
    port = free_port()
    job = control_plane.start_nodes(tmp_path, port, "worker-1")  # before there is a scheduler
    time.sleep(0.3)
    job.update(control_plane.start_nodes(tmp_path, port, "scheduler", "worker-0", "server-0"))
    assert set(control_plane.exit_codes(job).values()) == {0}


def test_a_process_killed_in_the_rendezvous_may_come_again(tmp_path: Path) -> None:
    port = free_port()
    job = control_plane.start_nodes(tmp_path, port, "scheduler", "server-0")
    doomed = control_plane.Node(tmp_path, control_plane.node_spec("worker-0", port))
    control_plane.wait_for_output(job["scheduler"], "here: worker-0")
    doomed.send(signal.SIGKILL)
    control_plane.wait_for_output(job["scheduler"], "died in the rendezvous")
    job.update(control_plane.start_nodes(tmp_path, port, "worker-0", "worker-1"))
    assert set(control_plane.exit_codes(job).values()) == {0}


def test_a_process_lost_in_the_rendezvous_is_worth_another_attempt(tmp_path: Path) -> None:
    job = control_plane.start_nodes(
        tmp_path, free_port(), "scheduler", "server-0", "worker-0", timeouts=SHORT
    )
    control_plane.wait_for_output(job["scheduler"], "here: worker-0")
    job["worker-0"].send(signal.SIGKILL)
    found = control_plane.exit_codes(job, 4)
    assert found.pop("worker-0") == -signal.SIGKILL
    assert set(found.values()) == {75}
    assert "worker-0 and worker-1 did not come" in job["server-0"].output
    assert job["server-0"].output.endswith(") died\n")


@pytest.mark.parametrize(
    ("infos", "code", "reasons"),
    [
        (
            ({"config": {"lr": 0.1}}, {"config": {"lr": 0.2}}),
            2,
            ["worker-1", "--lr 0.2", "worker-0", "has 0.1"],
        ),
        (({"checkpoints": [5]}, {"folder": "b"}), 2, ["worker-1", "has no checkpoint", "step 5"]),
        (({}, {"failed": [3, "b.rec: is\nno record file"]}), 3, ["worker-1: b.rec: is no record file"]),
    ],
)
def test_every_process_has_the_reason_why_the_job_cannot_start(
    tmp_path: Path, infos: tuple[dict[str, Any], ...], code: int, reasons: list[str]
) -> None:
    port = free_port()
    job = control_plane.start_nodes(tmp_path, port, "scheduler", "server-0")
    for index, info in enumerate(infos):
        job[f"worker-{index}"] = control_plane.Node(
            tmp_path, control_plane.node_spec(f"worker-{index}", port), info=info
        )
    assert set(control_plane.exit_codes(job).values()) == {code}
    for node in job.values():
        assert all(reason in node.output.splitlines()[-1] for reason in reasons), node.output


class Cable:
    """A relay to `port` that can be cut and mended: while it is cut, bytes wait unnoticed."""

    def __init__(self, port: int):
        self.is_whole = True
        self._target = port
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._carry, daemon=True).start()

    def _carry(self) -> None:
        near, _ = self._listener.accept()
        far = connect(self._target)
        other = {near: far, far: near}
        while True:
            ready = select.select(list(other), [], [], 0.02)[0] if self.is_whole else time.sleep(0.02) or []
            for end in ready:
                try:
                    block = end.recv(1 << 16)
                    other[end].sendall(block)
                except OSError:
                    block = b""
                if not block:
                    near.close()
                    far.close()
                    return


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[tuple[dict[str, control_plane.Node], Cable]]:
    """A job whose worker-1 is behind a cable."""

    def work(me: Agent) -> None:
        (tmp_path / me.name).touch()
        for _ in range(60):
            me.sum([1.0])
            time.sleep(0.02)
        me.finish()

    port, timeouts = free_port(), Timeouts(start=10, silence=1.2, stall=10)
    cable = Cable(port)
    job = control_plane.start_nodes(tmp_path, port, "scheduler", "server-0", timeouts=timeouts)
    job["worker-0"] = control_plane.Node(tmp_path, control_plane.node_spec("worker-0", port), work, timeouts)
    job["worker-1"] = control_plane.Node(
        tmp_path, control_plane.node_spec("worker-1", cable.port), work, timeouts
    )
    control_plane.wait_for_file(tmp_path / "worker-1")
    yield job, cable
    control_plane.exit_codes(job, 0)


def test_a_network_that_stays_cut_ends_both_sides(wired: tuple[dict[str, control_plane.Node], Cable]) -> None:
    job, cable = wired
    cable.is_whole = False
    assert set(control_plane.exit_codes(job, 4).values()) == {75}
    assert "worker-1 (" in job["worker-0"].output and "frozen or cut off" in job["worker-0"].output
    assert "heard nothing from the scheduler" in job["worker-1"].output


def test_a_network_that_is_mended_in_time_changes_nothing(
    wired: tuple[dict[str, control_plane.Node], Cable],
) -> None:
    job, cable = wired
    cable.is_whole = False
    time.sleep(0.4)
    cable.is_whole = True
    assert set(control_plane.exit_codes(job).values()) == {0}, [node.output for node in job.values()]
