"""Signals as stop requests that the training loop reads between two steps.

The first SIGTERM, SIGINT, SIGHUP or SIGUSR1 asks for a checkpoint and an end; a second one ends the process at once.
Owns their handling from the start of the command on; a worker's earlier one is deferred by `core/interrupts.py`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import Callable, Iterator

from mxtrain.cluster.worker_group import WorkerGroup
from mxtrain.core import interrupts
from mxtrain.core.errors import DONE, SIGHUP, SIGINT, SIGTERM, RestartMe, Stop, Stopped

RESUME_HINT = "the same command, with --resume auto, resumes from the newest checkpoint"
STOPS: dict[int, Stop] = {
    signal.SIGTERM: Stopped(f"stopped by SIGTERM; {RESUME_HINT}", SIGTERM),
    signal.SIGINT: Stopped(f"stopped by Ctrl-C; {RESUME_HINT}", SIGINT),
    signal.SIGUSR1: RestartMe(f"stopped by SIGUSR1; {RESUME_HINT}"),
    signal.SIGHUP: Stopped(f"stopped by SIGHUP, as its terminal has closed; {RESUME_HINT}", SIGHUP),
}
BY_HOOK: Stop = Stopped("stopped by a hook, after a checkpoint", DONE)


@contextlib.contextmanager
def stop_requests() -> Iterator[list[Stop]]:
    """A block in which signals are stop requests; yields a list that stays empty until the first one arrives."""
    received: list[Stop] = []
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    wakeup = signal.set_wakeup_fd(writing)  # first, or a signal would be lost between this and the handlers
    handlers = {
        number: signal.signal(number, _nothing) for number in STOPS if not interrupts.is_ignored(number)
    }
    received += [STOPS[number] for number, _ in interrupts.deferred]
    first_seconds = interrupts.deferred[0][1] if interrupts.deferred else 0.0
    arguments = reading, received, first_seconds
    threading.Thread(target=_read_signals, args=arguments, name="signals", daemon=True).start()
    try:
        yield received
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(writing)


@contextlib.contextmanager
def keyboard_interrupts() -> Iterator[list[Stop]]:
    """A block in which the first Ctrl-C is a stop request, and a second one a KeyboardInterrupt at once.

    Only where Ctrl-C would be a KeyboardInterrupt: in Python's main thread, unless the caller handles it otherwise.
    """
    received: list[Stop] = []
    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )

    def request(number: int, frame: FrameType | None) -> None:
        if STOPS[number] in received:
            raise KeyboardInterrupt
        received.append(STOPS[number])

    if is_ours:
        signal.signal(signal.SIGINT, request)
    try:
        yield received
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def agree_on_stop(group: WorkerGroup, stop_requests: list[Stop], is_time: bool) -> tuple[Stop | None, bool]:
    """Return a stop request that any worker has received, and whether `is_time` is true on any worker.

    A collective: all workers get the same answer at the same step.
    """
    first = stop_requests[0] if stop_requests else None  # read once: a signal may come between two reads
    known = [*STOPS.values(), BY_HOOK]
    *requested, times = group.sum([*(stop is first for stop in known), is_time])
    return next((stop for stop, num_workers in zip(known, requested) if num_workers), None), bool(times)


def progress_callback(group: WorkerGroup, stop_requests: list[Stop]) -> Callable[[bool], None]:
    """Return a callback for a worker's own long work before the first step.

    Called with whether the work has moved on, it reports progress, and raises Stopped after a stop request. That is not
    the request that all workers agree on and save after: it is this worker's alone, and ends the others like a failure.
    """

    def report(has_moved: bool) -> None:
        if has_moved:
            group.report_progress()
        if stop_requests:
            raise Stopped(str(stop_requests[0]), stop_requests[0].exit_code)

    return report


def _nothing(number: int, frame: FrameType | None) -> None:
    """Do nothing: Python runs handlers between lines of its main thread, which may stay in MXNet for long."""


def _read_signals(pipe: int, received: list[Stop], first_seconds: float) -> None:
    """Read the signal numbers that Python's C handler writes at once, until the other end closes."""
    with open(pipe, "rb", buffering=0) as arrivals:
        for number in iter(lambda: arrivals.read(1), b""):
            if number[0] not in STOPS:
                continue
            stop = STOPS[number[0]]
            if not received:
                first_seconds = time.monotonic()
                received.append(stop)
            elif interrupts.is_second(number[0], first_seconds):
                _exit_now(stop.exit_code)


def _exit_now(exit_code: int) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print("mxtrain.fit: left at once, on a second signal", file=sys.stderr, flush=True)
    os._exit(exit_code)
