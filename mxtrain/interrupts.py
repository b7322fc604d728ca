"""Ctrl-C and SIGTERM for commands that are not training: `train/signals.py` has its own way, `launch/life.py` too.

Imports next to nothing, as commands come here before they import anything else.
"""

from __future__ import annotations

import os
import signal

MEANING = {signal.SIGINT: "stopped by Ctrl-C", signal.SIGTERM: "stopped by SIGTERM"}


def leave(program: str) -> None:
    """They end this process at once, with one line: there is nothing to lose yet.

    An exception would not do while modules are imported: NumPy makes an ImportError and a page of advice of it.
    """

    def end(number: int, frame: object) -> None:
        try:
            os.write(2, f"{program}: {MEANING[signal.Signals(number)]}\n".encode())
        finally:  # also where nobody reads any more
            os._exit(128 + number)

    for number in MEANING:
        signal.signal(number, end)


def stop() -> None:
    """From here on they are exceptions: there is something to clean away."""
    from mxtrain.errors import Stopped

    def end(number: int, frame: object) -> None:
        raise Stopped(MEANING[signal.Signals(number)], 128 + number)

    for number in MEANING:
        signal.signal(number, end)
