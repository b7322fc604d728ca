"""A terminal or pipe that is not read delays neither a job nor its end: real pipes, terminals and processes."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
import tty
from typing import Any, Callable, Iterator

import pytest

from mxtrain.core.errors import SIGTERM
from mxtrain.launch import terminal
from mxtrain.launch.terminal import Terminal
from tests.support.jobs.supervised_groups import ROOT, SupervisedGroup, is_ready, starting, until  # noqa: F401

# Far more than a pipe holds, and then on with it.
MUCH = "print(('x' * 99 + chr(10)) * 9999, flush=True); "
Ends = Callable[[Callable[[], Any]], "tuple[int, int]"]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Open pairs of descriptors to read from and to write to, which are closed when the test is over."""
    opened: list[int] = []

    def open_both(how: Callable[[], Any]) -> tuple[int, int]:
        opened.extend(how())
        return opened[-2], opened[-1]

    yield open_both
    for handle in opened:
        os.close(handle)


def raw_terminal() -> tuple[int, int]:
    reading, writing = pty.openpty()
    tty.setraw(writing)
    return reading, writing


def read(handle: int, num_bytes: int) -> bytes:
    found = b""
    while len(found) < num_bytes:
        found += os.read(handle, 1 << 16)
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_job_whose_output_is_not_read_can_be_stopped(
    start: Callable[..., SupervisedGroup], number: int
) -> None:
    job = start(names=["worker-0"], stderr=subprocess.STDOUT, worker_0=MUCH + f"stop({SIGTERM})")
    until(is_ready(job, "worker-0"), "it did not start")
    time.sleep(0.3)
    job.process.send_signal(number)
    assert job.process.wait(10) == 128 + number


def test_a_job_whose_output_is_not_read_restarts_and_ends(start: Callable[..., SupervisedGroup]) -> None:
    job = start(stderr=subprocess.STDOUT, worker_0=MUCH + "attempt or kill(9)", worker_1="", server_0="")
    assert job.process.wait(20) == 0
    assert job.log("worker-0").count("x" * 99) == 2 * 9999


@pytest.mark.parametrize("how", [os.pipe, raw_terminal])
def test_output_that_is_read_late_is_whole(ends: Ends, how: Callable[[], Any]) -> None:
    reading, writing = ends(how)
    out, lines = Terminal(writing), [b"line %d\n" % number for number in range(20_000)]
    began = time.monotonic()
    for line in lines:
        out.write(line)
    assert time.monotonic() - began < 2  # a moment's wait at the first that is not taken, and no more
    assert read(reading, len(b"".join(lines))) == b"".join(lines)


def test_beyond_a_bound_lines_are_dropped_and_counted(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "MAX_PENDING_BYTES", 100_000)
    reading, writing = ends(os.pipe)
    out, line = Terminal(writing), b"x" * 999 + b"\n"
    out.write(line * 1000)
    out.write(line * 10)
    gap = b"mxtrain.launch: 910 lines left out, which nobody read in time; see logs/\n"
    assert read(reading, 100_000 + len(gap)) == line * 100 + gap
    out.write(b"and on\n")
    assert read(reading, 7) == b"and on\n"


def test_two_descriptors_of_one_terminal_keep_their_order(ends: Ends) -> None:
    reading, writing = ends(os.pipe)
    both = [Terminal(writing), Terminal(writing)]
    for number in range(1000):
        both[number % 2].write(b"%5d\n" % number)
    assert read(reading, 6000) == b"".join(b"%5d\n" % number for number in range(1000))


def test_a_pipe_that_somebody_has_made_nonblocking_loses_nothing(ends: Ends) -> None:
    reading, writing = ends(os.pipe)
    os.set_blocking(writing, False)
    out = Terminal(writing)
    out.write(b"x" * 300_000)
    assert read(reading, 300_000) == b"x" * 300_000


def test_the_last_lines_reach_a_slow_reader() -> None:
    code = "from mxtrain.launch import logs; [logs.print_message('x' * 99) for _ in range(3000)]"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        time.sleep(0.3)
        assert (first + process.stderr.read()).count(b"x" * 99 + b"\n") == 3000
    assert process.returncode == 0
