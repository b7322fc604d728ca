"""Signals as a wish that the loop reads between two steps.

The first SIGTERM, SIGINT or SIGUSR1 asks for a checkpoint and an end; a second one ends the process at once. A worker's
may have come while it was still importing (`interrupts.defer_signal`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from typing import Any, Callable, Iterator

from mxtrain.cluster.worker_group import WorkerGroup
from mxtrain.core import interrupts
from mxtrain.core.errors import SIGINT, SIGTERM, RestartMe, Stop, Stopped
from mxtrain.core.interrupts import SAME_REQUEST_SECONDS

GOES_ON = "the same command, with --resume auto, goes on from the newest checkpoint"
MEANING: dict[int, Stop] = {
    signal.SIGTERM: Stopped(f"stopped by SIGTERM; {GOES_ON}", SIGTERM),
    signal.SIGINT: Stopped(f"stopped by Ctrl-C; {GOES_ON}", SIGINT),
    signal.SIGUSR1: RestartMe(f"stopped by SIGUSR1; {GOES_ON}"),
}


@contextlib.contextmanager
def stop_requests() -> Iterator[list[Stop]]:
    """A list that stays empty until a signal arrives and then holds how to end."""
    received: list[Stop] = []
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    wakeup = signal.set_wakeup_fd(writing)  # first, or a signal would be lost between this and the handlers
    handlers = {number: signal.signal(number, _nothing) for number in MEANING}
    received += [MEANING[number] for number, _ in interrupts.deferred]
    first_seconds = interrupts.deferred[0][1] if interrupts.deferred else 0.0
    arguments = reading, received, first_seconds
    threading.Thread(target=_watch, args=arguments, name="signals", daemon=True).start()
    try:
        yield received
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(writing)


def agreed(group: WorkerGroup, stop_requests: list[Stop], is_time: bool) -> tuple[Stop | None, bool]:
    """The wish that any worker has, and whether it is time for any: all of them learn the same at the same step."""
    first = stop_requests[0] if stop_requests else None  # once: a signal may come between two looks
    known = list(MEANING.values())
    *wished, times = group.sum([*(stop is first for stop in known), is_time])
    return next((stop for stop, num_workers in zip(known, wished) if num_workers), None), bool(times)


def heeding(group: WorkerGroup, stop_requests: list[Stop]) -> Callable[[bool], None]:
    """For a worker's own long work before the first step: called with whether it has got on, it raises a wish.

    Not the wish that all have agreed on and saved by: it is this worker's alone, and ends the others like a failure.
    """

    def look(has_moved: bool) -> None:
        if has_moved:
            group.heartbeat()
        if stop_requests:
            raise Stopped(str(stop_requests[0]), stop_requests[0].exit_code)

    return look


def _nothing(number: int, frame: Any) -> None:
    """Python runs handlers between lines of its main thread, which may stay in MXNet for long."""


def _watch(pipe: int, received: list[Stop], first_seconds: float) -> None:
    """Read what Python's own handler writes there the moment a signal arrives, until the other end closes."""
    with open(pipe, "rb", buffering=0) as arrivals:
        for number in iter(lambda: arrivals.read(1), b""):
            if number[0] not in MEANING:
                continue
            stop = MEANING[number[0]]
            if not received:
                first_seconds = time.monotonic()
                received.append(stop)
            elif time.monotonic() - first_seconds > SAME_REQUEST_SECONDS:
                _leave(stop.exit_code)


def _leave(exit_code: int) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print("mxtrain.fit: left at once, on a second signal", file=sys.stderr, flush=True)
    os._exit(exit_code)
