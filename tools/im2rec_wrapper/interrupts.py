"""Ctrl-C and SIGTERM: the first ends the command as an error does, any after it the process, at once."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Iterator

from mxtrain.errors import SIGINT, SIGTERM, Stopped
from mxtrain.train.signals import ONE_WISH_SECONDS

_NAMES = {signal.SIGINT: ("SIGINT", SIGINT), signal.SIGTERM: ("SIGTERM", SIGTERM)}


@contextlib.contextmanager
def heeded(program: str) -> Iterator[None]:
    """Within the block a signal raises Stopped. After it there is only waiting for threads, which any signal ends."""
    first_seconds: list[float] = []

    def stop(number: int, _: object) -> None:
        name, exit_code = _NAMES[signal.Signals(number)]
        if not first_seconds:
            first_seconds.append(time.monotonic())
            raise Stopped(f"stopped by {name}", exit_code)
        if time.monotonic() - first_seconds[0] > ONE_WISH_SECONDS:
            # No print: this may have come in the middle of one. No exit either: C++ aborts where its threads still run.
            with contextlib.suppress(OSError):
                os.write(2, f"{program}: left at once, on {name}\n".encode())
            os._exit(exit_code)

    for number in _NAMES:
        signal.signal(number, stop)
    try:
        yield
    finally:
        first_seconds.append(float("-inf"))
