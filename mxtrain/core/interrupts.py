"""Ctrl-C and SIGTERM for commands that are not training: `train/signals.py` has its own way, `launch/attempt.py` too.

Imports next to nothing, as commands come here before they import anything else.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Iterator, NoReturn

# timeout(1) and others signal their child and then its whole group, which is one wish and not two.
ONE_WISH_SECONDS = 0.1
MEANING = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
kept: list[tuple[int, float]] = []  # a signal that came before `train/signals.py` could hear it, and when


def leave(program: str) -> None:
    """They end this process at once, with one line: there is nothing to lose yet.

    An exception would not do while modules are imported: NumPy makes an ImportError and a page of advice of it.
    A server or scheduler of a job just dies of them, which whoever supervises it takes for what it is.
    """
    if os.environ.get("DMLC_ROLE"):
        for number in MEANING:
            signal.signal(number, signal.SIG_DFL)
        return

    def end(number: int, frame: object) -> None:
        _leave(f"{program}: stopped by {MEANING[signal.Signals(number)]}", number)

    for number in MEANING:
        signal.signal(number, end)


def keep(program: str) -> None:
    """A worker's first is kept for `train/signals.py`: the others of its job have to hear of it. A second ends it."""

    def take(number: int, frame: object) -> None:
        if not kept:
            kept.append((number, time.monotonic()))
        elif time.monotonic() - kept[0][1] > ONE_WISH_SECONDS:
            _leave(f"{program}: left at once, on a second signal", number)

    for number in (*MEANING, signal.SIGUSR1):
        signal.signal(number, take)


def heed_kept(program: str) -> None:
    """Called in a wait for where the others are: as long as that is not known, nobody can be told."""
    if kept:
        number = kept[0][0]
        _leave(f"{program}: stopped by {signal.Signals(number).name}", number)


@contextlib.contextmanager
def heeded(program: str, grace_seconds: float | None = None) -> Iterator[None]:
    """Within the block the first is an exception: there is something to clean away. Any after it ends the process.

    After the block there is only waiting for threads, which any signal ends. Neither takes longer than the
    grace period, if there is one.
    """
    from mxtrain.core.errors import Stopped

    first_seconds: list[float] = []

    def stop(number: int, frame: object) -> None:
        name = MEANING[signal.Signals(number)]
        if not first_seconds:
            first_seconds.append(time.monotonic())
            if grace_seconds is not None:
                _leave_in(grace_seconds, program, number)
            raise Stopped(f"stopped by {name}", 128 + number)
        if time.monotonic() - first_seconds[0] > ONE_WISH_SECONDS:
            _leave(f"{program}: left at once, on {name}", number)

    for number in MEANING:
        signal.signal(number, stop)
    try:
        yield
    finally:
        first_seconds.append(float("-inf"))


def _leave_in(seconds: float, program: str, number: int) -> None:
    import threading

    line = f"{program}: left what has not ended in {seconds:g} s"
    timer = threading.Timer(seconds, _leave, [line, number])
    timer.daemon = True
    timer.start()


def _leave(line: str, number: int) -> NoReturn:
    from mxtrain.core.errors import RESTART_ME

    # No print: this may have come in the middle of one. No exit either: C++ aborts where its threads still run.
    try:
        os.write(2, f"{line}\n".encode())
    finally:  # also where nobody reads any more
        os._exit(RESTART_ME if number == signal.SIGUSR1 else 128 + number)
