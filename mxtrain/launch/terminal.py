"""What is said on a terminal, or into a pipe, that may not be read: who says it never waits for long.

A thread of its own does the writing and hangs there if need be. Only this holds for every kind of handle: a terminal
that polls as writable may have room for a single byte, and O_NONBLOCK would hold for all that share the terminal.
"""

from __future__ import annotations

import atexit
import os
import select
import threading

MOST_WAITING_BYTES = 4 << 20
BLOCK_BYTES = select.PIPE_BUF
WRITE_SECONDS = 0.1
END_SECONDS = 1.0  # for the last lines, where the reader is merely slow


class Terminal:
    """One handle; what it does not take in time waits, up to a bound, and the rest is counted and dropped."""

    def __init__(self, handle: int):
        self._handle = handle
        self._waiting = bytearray()
        self._num_dropped = 0
        self._is_started = False
        self._changed = threading.Condition()

    def write(self, lines: bytes) -> None:
        """Ordinarily they are out when this returns, so that two handles of one terminal keep their order."""
        with self._changed:
            if not self._is_started:
                self._is_started = True
                threading.Thread(target=self._write_on, name="terminal", daemon=True).start()
                atexit.register(self.wait, END_SECONDS)
            was_behind = bool(self._waiting)
            self._keep(lines)
            self._changed.notify_all()
        if not was_behind:
            self.wait(WRITE_SECONDS)

    def wait(self, seconds: float) -> None:
        """Until all is out, at most so long."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, seconds)

    def _keep(self, lines: bytes) -> None:
        """Whole lines as long as there is room; after a gap none until its end can be told."""
        room = 0 if self._num_dropped else MOST_WAITING_BYTES - len(self._waiting)
        end = len(lines) if len(lines) <= room else lines.rfind(b"\n", 0, room) + 1
        self._waiting += lines[:end]
        self._num_dropped += lines.count(b"\n", end)

    def _write_on(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                block = bytes(self._waiting[:BLOCK_BYTES])
            num_written = _write(self._handle, block)
            with self._changed:
                del self._waiting[:num_written]
                if self._num_dropped and not self._waiting:
                    told = f"mxtrain.launch: {self._num_dropped} lines left out, which nobody read in time; see logs/\n"
                    self._waiting += told.encode()
                    self._num_dropped = 0
                self._changed.notify_all()


def _write(handle: int, block: bytes) -> int:
    """How much of it is done with; a terminal or pipe that has gone does not end the job."""
    try:
        return os.write(handle, block)
    except BlockingIOError:  # somebody else has set O_NONBLOCK
        select.select([], [handle], [])
        return 0
    except OSError:
        return len(block)
