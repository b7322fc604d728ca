"""Writing to a terminal or pipe that may not be read, without ever waiting for long.

Owns the thread that writes and what it has not written yet. A thread may hang in a write, the caller may not: a
terminal that polls as writable may have room for a single byte, and O_NONBLOCK would hold for all that share it.
"""

from __future__ import annotations

import atexit
import os
import select
import threading

MAX_PENDING_BYTES = 4 << 20
BLOCK_BYTES = select.PIPE_BUF
WRITE_SECONDS = 0.1
END_SECONDS = 1.0  # for the last lines, where the reader is merely slow


class Terminal:
    """One file descriptor; what it does not take in time is queued up to a bound, the rest is counted and dropped."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self._pending = bytearray()
        self._num_dropped = 0
        self._is_started = False
        self._changed = threading.Condition()

    def write(self, lines: bytes) -> None:
        """Write whole lines, ordinarily before this returns: two descriptors of one terminal keep their order."""
        with self._changed:
            if not self._is_started:
                self._is_started = True
                threading.Thread(target=self._write_loop, name="terminal", daemon=True).start()
                atexit.register(self.flush, END_SECONDS)
            was_behind = bool(self._pending)
            self._enqueue(lines)
            self._changed.notify_all()
        if not was_behind:
            self.flush(WRITE_SECONDS)

    def flush(self, seconds: float) -> None:
        """Wait until all is written, for `seconds` at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._pending, seconds)

    def _enqueue(self, lines: bytes) -> None:
        """Append whole lines as long as there is room; after a gap none until its size has been reported."""
        room = 0 if self._num_dropped else MAX_PENDING_BYTES - len(self._pending)
        end = len(lines) if len(lines) <= room else lines.rfind(b"\n", 0, room) + 1
        self._pending += lines[:end]
        self._num_dropped += lines.count(b"\n", end)

    def _write_loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending)
                block = bytes(self._pending[:BLOCK_BYTES])
            num_written = _write(self._descriptor, block)
            with self._changed:
                del self._pending[:num_written]
                if self._num_dropped and not self._pending:
                    gap = f"mxtrain.launch: {self._num_dropped} lines left out, which nobody read in time; see logs/\n"
                    self._pending += gap.encode()
                    self._num_dropped = 0
                self._changed.notify_all()


def _write(descriptor: int, block: bytes) -> int:
    """The number of bytes that are done with; a terminal or pipe that has gone does not end the job."""
    try:
        return os.write(descriptor, block)
    except BlockingIOError:  # somebody else has set O_NONBLOCK
        select.select([], [descriptor], [])
        return 0
    except OSError:
        return len(block)
