"""Who comes to the scheduler's port: late, twice, from elsewhere, with garbage, or over a network that is cut."""

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

from mxtrain.cluster.agent import Agent, Timeouts
from mxtrain.cluster.channel import HEADER, MAGIC
from mxtrain.cluster.environment import LOOPBACK
from mxtrain.core.errors import DataError
from tests.support import control_plane
from tests.support.coordinators import said, some

SHORT = Timeouts(start=1.0, silence=5, stall=5)


def frame(message: Any) -> bytes:
    text = json.dumps(message).encode()
    return HEADER.pack(MAGIC, len(text), 0) + text


WORKER = {"role": "worker", "node": "worker-1", "host": "h", "boot_id": "", "pid": 1}
STRANGERS = {
    "a port scanner": b"",
    "a browser": b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    "noise": bytes(range(256)) * 64,
    "a huge message": HEADER.pack(MAGIC, 1 << 31, 0),
    "huge values": HEADER.pack(MAGIC, 2, 1 << 31) + b"{}",
    "no JSON": HEADER.pack(MAGIC, 4, 0) + b"oops",
    "a pit of brackets": HEADER.pack(MAGIC, 500_000, 0) + b"[" * 500_000,
    "no object": frame([1, 2]),
    "no kind": frame({}),
    "no hello": frame({"kind": "fail", "exit_code": 3, "reason": "go away"}),
    "no card": frame({"kind": "hello"}),
    "an odd card": frame({"kind": "hello", "card": {"role": "worker", "node": [], "pid": "x"}}),
    "a nameless card": frame(
        {"kind": "hello", "card": {"role": "worker", "node": "root\n", "host": "h", "boot_id": "", "pid": 1}}
    ),
    "a world that is a book": frame({"kind": "hello", "world": "\x1b[31m\n" * 60_000, "card": WORKER}),
    "a world without an end": frame({"kind": "hello", "world": [2, 1, 0], "card": WORKER}),
}


def test_strangers_are_shown_out_and_the_job_goes_on(tmp_path: Path) -> None:
    def work(me: Agent) -> None:
        while not me.sum([(tmp_path / "enough").exists()])[0]:
            time.sleep(0.01)
        me.finish()

    job = control_plane.start(tmp_path, {"worker-0": work, "worker-1": work})
    port = job_port(job)
    lines = []
    for words in STRANGERS.values():
        line = connect(port)
        line.sendall(words)
        lines.append(line)
    flood = [connect(port) for _ in range(100)]  # more than it puts up with
    for name, line in zip(STRANGERS, lines):
        if STRANGERS[name]:
            assert is_closed(line), name
    (tmp_path / "enough").touch()
    assert set(control_plane.codes(job).values()) == {0}, [node.said for node in job.values()]
    for line in [*lines, *flood]:
        line.close()


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


def is_closed(line: socket.socket) -> bool:
    try:
        while line.recv(1 << 16):
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
        ({"num_workers": 4, "is_restart": True}, 75, "is told of [4, 1]"),
        ({"generation": 3}, 75, "life 3"),
        ({"num_workers": 3}, 2, "is told of [3, 1] workers and servers, the scheduler of [2, 1]"),
        ({"name": "worker-1"}, 75, "comes as a second worker-1"),
        ({"name": "worker-2"}, 2, "is one too many"),
        ({"name": "server-1"}, 2, "is one too many"),
    ],
)
def test_who_does_not_belong_is_refused_and_the_job_not_touched(
    tmp_path: Path, changes: dict[str, Any], code: int, reason: str
) -> None:
    def work(me: Agent) -> None:
        (tmp_path / me.name).touch()
        while not me.sum([(tmp_path / "enough").exists()])[0]:
            time.sleep(0.01)
        me.finish()

    job = control_plane.start(tmp_path, {"worker-0": work, "worker-1": work})
    control_plane.when(tmp_path / "worker-0")
    name = changes.pop("name", "worker-1")
    extra = control_plane.Node(tmp_path, control_plane.place(name, job_port(job), **changes))
    assert extra.code() == code
    assert reason in extra.said and extra.said.count("\n") == 1
    (tmp_path / "enough").touch()
    assert set(control_plane.codes(job).values()) == {0}
    assert reason in job["scheduler"].said


def test_who_is_missing_is_named(tmp_path: Path) -> None:
    port = control_plane.free_port()
    job = some(tmp_path, port, "scheduler", "server-0", "worker-0", times=SHORT)
    later = {
        "scheduler": control_plane.Node(
            tmp_path,
            control_plane.place("scheduler", control_plane.free_port(), is_restart=True),
            times=SHORT,
        )
    }
    assert set(control_plane.codes(job, 5).values()) == {2}
    for node in job.values():
        assert "worker-1 did not come to 127.0.0.1:" in node.said and "worker-0 (" in node.said
    assert control_plane.codes(later) == {"scheduler": 75}  # it did once come up: another life may help
    assert "server-0 and worker-0 and worker-1 did not come to" in later["scheduler"].said


def test_no_scheduler_and_no_control_line(tmp_path: Path) -> None:
    nobody = control_plane.Node(
        tmp_path, control_plane.place("worker-0", control_plane.free_port()), times=SHORT
    )
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen(1)
        lost = control_plane.Node(
            tmp_path, control_plane.place("worker-1", listener.getsockname()[1]), times=SHORT
        )
        connection, _ = listener.accept()
        connection.sendall(b"220 mail.example.org ESMTP\r\n")
        later = control_plane.Node(
            tmp_path, control_plane.place("worker-0", listener.getsockname()[1], is_restart=True), times=SHORT
        )
        other_connection, _ = listener.accept()
        other_connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        mute = control_plane.Node(
            tmp_path,
            control_plane.place("server-0", listener.getsockname()[1]),
            times=Timeouts(1.2, silence=0.8, stall=5),
        )
        assert later.code(4) == 75 and "is no scheduler of mxtrain" in later.said
        assert lost.code(4) == 2 and "is no scheduler of mxtrain" in lost.said
        assert mute.code(5) == 75 and "heard nothing from the scheduler" in mute.said
        connection.close()
        other_connection.close()
    assert nobody.code(5) == 2 and "worker-0: no scheduler at 127.0.0.1:" in nobody.said


@pytest.mark.parametrize("has_scheduler", [False, True])
def test_a_signal_ends_the_waiting_for_the_others(tmp_path: Path, has_scheduler: bool) -> None:
    port = control_plane.free_port()
    scheduler = some(tmp_path, port, *["scheduler"] * has_scheduler)
    waiting = control_plane.Node(tmp_path, control_plane.place("worker-0", port), heeds_signals=True)
    time.sleep(1)
    waiting.send(signal.SIGTERM)
    assert waiting.code(2) == 143 and "stopped by SIGTERM" in waiting.end, waiting.said
    if has_scheduler:
        assert scheduler["scheduler"].code(2) == 143, "one that is told to stop stops all, as it does later"


def test_a_reason_is_one_line_of_bounded_length_whoever_wrote_it(tmp_path: Path) -> None:
    def fail(me: Agent) -> None:
        raise DataError("\x1b[31mred\n" + "long" * 300_000)

    job = control_plane.start(tmp_path, {"worker-1": fail, "worker-0": control_plane.wait})
    assert set(control_plane.codes(job, 4).values()) == {3}
    for node in job.values():
        assert node.end.startswith("mxtrain.fit: worker-1: [31mred long") and node.end.count("\n") == 1
        assert len(node.end) < 5000


def test_two_jobs_on_one_port(tmp_path: Path) -> None:
    port = control_plane.free_port()
    first = some(tmp_path, port, "scheduler", "server-0", "worker-0")
    control_plane.Node(
        tmp_path, control_plane.place("worker-0", port, token="waits until the first listens")
    ).code()
    second = {
        name: control_plane.Node(tmp_path, control_plane.place(name, port, token="other"))
        for name in ("scheduler", "worker-1")
    }
    assert set(control_plane.codes(second).values()) == {2}
    assert "another program has this port" in second["scheduler"].said
    assert "is of another job" in second["worker-1"].said
    first.update(some(tmp_path, port, "worker-1"))
    assert set(control_plane.codes(first).values()) == {0}


def test_the_roll_call_may_begin_before_there_is_a_scheduler(tmp_path: Path) -> None:
    port = control_plane.free_port()
    job = some(tmp_path, port, "worker-1")  # before there is a scheduler
    time.sleep(0.3)
    job.update(some(tmp_path, port, "scheduler", "worker-0", "server-0"))
    assert set(control_plane.codes(job).values()) == {0}


def test_one_killed_in_the_roll_call_may_come_again(tmp_path: Path) -> None:
    port = control_plane.free_port()
    job = some(tmp_path, port, "scheduler", "server-0")
    doomed = control_plane.Node(tmp_path, control_plane.place("worker-0", port))
    said(job["scheduler"], "here: worker-0")
    doomed.send(signal.SIGKILL)
    said(job["scheduler"], "died in the roll call")
    job.update(some(tmp_path, port, "worker-0", "worker-1"))
    assert set(control_plane.codes(job).values()) == {0}


def test_one_lost_in_the_roll_call_is_worth_another_life(tmp_path: Path) -> None:
    job = some(tmp_path, control_plane.free_port(), "scheduler", "server-0", "worker-0", times=SHORT)
    said(job["scheduler"], "here: worker-0")
    job["worker-0"].send(signal.SIGKILL)
    found = control_plane.codes(job, 4)
    assert found.pop("worker-0") == -signal.SIGKILL
    assert set(found.values()) == {75}
    assert "worker-0 and worker-1 did not come" in job["server-0"].said
    assert job["server-0"].said.endswith(") died\n")


@pytest.mark.parametrize(
    ("cards", "code", "reasons"),
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
def test_all_learn_why_they_cannot_begin(
    tmp_path: Path, cards: tuple[dict[str, Any], ...], code: int, reasons: list[str]
) -> None:
    port = control_plane.free_port()
    job = some(tmp_path, port, "scheduler", "server-0")
    for number, card in enumerate(cards):
        job[f"worker-{number}"] = control_plane.Node(
            tmp_path, control_plane.place(f"worker-{number}", port), card=card
        )
    assert set(control_plane.codes(job).values()) == {code}
    for node in job.values():
        assert all(reason in node.said.splitlines()[-1] for reason in reasons), node.said


class Cable:
    """A way to `port` that can be cut and healed: while cut, bytes wait and nobody is told."""

    def __init__(self, port: int):
        self.whole = True
        self._target = port
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._carry, daemon=True).start()

    def _carry(self) -> None:
        near, _ = self._listener.accept()
        far = connect(self._target)
        other = {near: far, far: near}
        while True:
            ready = select.select(list(other), [], [], 0.02)[0] if self.whole else time.sleep(0.02) or []
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

    port, times = control_plane.free_port(), Timeouts(start=10, silence=1.2, stall=10)
    cable = Cable(port)
    job = some(tmp_path, port, "scheduler", "server-0", times=times)
    job["worker-0"] = control_plane.Node(tmp_path, control_plane.place("worker-0", port), work, times)
    job["worker-1"] = control_plane.Node(tmp_path, control_plane.place("worker-1", cable.port), work, times)
    control_plane.when(tmp_path / "worker-1")
    yield job, cable
    control_plane.codes(job, 0)


def test_a_cut_network_ends_both_sides(wired: tuple[dict[str, control_plane.Node], Cable]) -> None:
    job, cable = wired
    cable.whole = False
    assert set(control_plane.codes(job, 4).values()) == {75}
    assert "worker-1 (" in job["worker-0"].said and "frozen or cut off" in job["worker-0"].said
    assert "heard nothing from the scheduler" in job["worker-1"].said


def test_a_network_that_heals_in_time_is_nothing(wired: tuple[dict[str, control_plane.Node], Cable]) -> None:
    job, cable = wired
    cable.whole = False
    time.sleep(0.4)
    cable.whole = True
    assert set(control_plane.codes(job).values()) == {0}, [node.said for node in job.values()]
