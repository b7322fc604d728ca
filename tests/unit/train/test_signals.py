"""One signal is a stop request, a second one an end, also while the main thread is in C code."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

from mxtrain.cluster.worker_group import SINGLE_WORKER, SingleWorker
from mxtrain.core.errors import RESTART_ME, SIGHUP, SIGINT, SIGTERM
from mxtrain.core.interrupts import SAME_REQUEST_SECONDS
from mxtrain.train import signals

ROOT = Path(__file__).resolve().parents[3]
CODES = [(signal.SIGTERM, SIGTERM), (signal.SIGINT, SIGINT), (signal.SIGUSR1, RESTART_ME)]


def until_one(stop_requests: list[object]) -> None:
    end = time.monotonic() + 20
    while not stop_requests and time.monotonic() < end:
        time.sleep(0.001)


@pytest.mark.parametrize(("number", "code"), [*CODES, (signal.SIGHUP, SIGHUP)])
def test_a_signal_is_a_stop_request(number: int, code: int) -> None:
    with signals.stop_requests() as stop_requests:
        assert stop_requests == []
        os.kill(os.getpid(), number)
        until_one(stop_requests)  # type: ignore[arg-type]
        assert [stop.exit_code for stop in stop_requests] == [code]


def open_pipes() -> set[str]:
    """The pipes of this process, in which threads of other tests open and close files meanwhile."""
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(os.readlink(path))
    return {name for name in found if name.startswith("pipe:")}


def readers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "signals"]


def test_earlier_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number, _ in CODES]
    pipes = open_pipes()
    for _ in range(3):
        with signals.stop_requests():
            assert [signal.getsignal(number) for number, _ in CODES] != before
            assert len(readers()) > 0 and open_pipes() - pipes
    assert [signal.getsignal(number) for number, _ in CODES] == before
    end = time.monotonic() + 20
    while (readers() or open_pipes() - pipes) and time.monotonic() < end:
        time.sleep(0.001)
    assert readers() == [] and open_pipes() <= pipes


BLOCKED_IN_C = """
import ctypes
from mxtrain.train import signals
library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
library.pthread_mutex_lock(mutex)
with signals.stop_requests():
    print("ready", flush=True)
    library.pthread_mutex_lock(mutex)  # for ever, and no signal ends it
"""


@contextlib.contextmanager
def blocked_in_c() -> Iterator[subprocess.Popen[str]]:
    line = [sys.executable, "-c", BLOCKED_IN_C]
    with subprocess.Popen(
        line, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(("number", "code"), CODES)
def test_a_second_signal_ends_a_process_blocked_in_c(number: int, code: int) -> None:
    with blocked_in_c() as process:
        process.send_signal(signal.SIGTERM)
        time.sleep(3 * SAME_REQUEST_SECONDS)
        assert process.poll() is None
        process.send_signal(number)
        said = process.communicate(timeout=20)[1]
        assert process.returncode == code
        assert said == "mxtrain.fit: left at once, on a second signal\n"


def test_two_signals_at_once_are_one_stop_request() -> None:
    """timeout(1) may signal its child and then the group; two kinds here, since one of two equal ones may be lost."""
    with blocked_in_c() as process:
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        time.sleep(3 * SAME_REQUEST_SECONDS)
        assert process.poll() is None


def test_a_terminal_that_closes_is_one_stop_request_however_often_it_is_said() -> None:
    """The shell passes its SIGHUP on, and Linux sends one more when the shell ends."""
    with blocked_in_c() as process:
        for _ in range(3):
            process.send_signal(signal.SIGHUP)
            time.sleep(2 * SAME_REQUEST_SECONDS)
        assert process.poll() is None


class Two(SingleWorker):
    """A worker; the only other one adds `theirs` to each sum."""

    def __init__(self, *theirs: float):
        self.theirs = theirs

    def sum(self, values: Any) -> Any:
        return np.add(values, self.theirs)


def test_workers_stop_together_whichever_received_the_request() -> None:
    terminate, interrupt, *_ = signals.STOPS.values()
    assert signals.agree_on_stop(SINGLE_WORKER, [], False) == (None, False)
    assert signals.agree_on_stop(SINGLE_WORKER, [interrupt], True) == (interrupt, True)
    assert signals.agree_on_stop(Two(0, 0, 0, 0, 0, 0), [], False) == (None, False)
    assert signals.agree_on_stop(Two(0, 0, 0, 0, 0, 1), [], False) == (None, True)
    assert signals.agree_on_stop(Two(0, 1, 0, 0, 0, 0), [], False) == (interrupt, False)
    assert signals.agree_on_stop(Two(0, 1, 0, 0, 0, 0), [terminate, interrupt], False) == (
        terminate,
        False,
    ), "one for all"
