"""Signals as a wish that the loop reads between two steps.

The first SIGTERM, SIGINT or SIGUSR1 asks for a checkpoint and an end; a second one ends the process at once.
"""

from __future__ import annotations

import contextlib
import signal
from typing import Any, Iterator

from mxtrain.errors import SIGINT, SIGTERM, RestartMe, Stop, Stopped

MEANING: dict[int, Stop] = {
    signal.SIGTERM: Stopped(
        "stopped by SIGTERM; the same command goes on from the newest checkpoint", SIGTERM
    ),
    signal.SIGINT: Stopped("stopped by Ctrl-C; the same command goes on from the newest checkpoint", SIGINT),
    signal.SIGUSR1: RestartMe("stopped by SIGUSR1; the same command goes on from the newest checkpoint"),
}


@contextlib.contextmanager
def wishes() -> Iterator[list[Stop]]:
    """A list that stays empty until a signal arrives and then holds how to end."""
    received: list[Stop] = []
    before = {number: signal.getsignal(number) for number in MEANING}

    def note(number: int, frame: Any) -> None:
        received.append(MEANING[number])
        for each in MEANING:
            signal.signal(each, signal.SIG_DFL)

    for number in MEANING:
        signal.signal(number, note)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
