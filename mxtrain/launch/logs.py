"""The output of a job: a log for each process, and the terminal.

Owns the logs' headers and what the terminal shows. Processes write into their logs themselves, so that none waits
for a supervisor that is stopped or for a terminal that does not read; the terminal's lines are read back from there.
"""

from __future__ import annotations

import os
import time
from typing import BinaryIO, Sequence

from mxtrain.core.errors import UsageError
from mxtrain.launch.plan import ProcessSpec
from mxtrain.launch.terminal import Terminal

STDOUT, STDERR = Terminal(1), Terminal(2)
TAIL_BYTES = 1 << 16


def print_lines(name: str, lines: Sequence[str]) -> None:
    """Print lines of the process `name` on the terminal."""
    STDOUT.write("".join(f"{name} | {line}\n" for line in lines).encode())


def print_message(message: str) -> None:
    """Print a line of the launcher's own on the terminal."""
    STDERR.write(f"mxtrain.launch: {message}\n".encode())


def open_log(process: ProcessSpec, attempt: int) -> BinaryIO:
    """Return the log of a process, opened to append to, after writing the header of this attempt into it."""
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    try:
        process.log.parent.mkdir(parents=True, exist_ok=True)
        log = process.log.open("ab", buffering=0)
        log.write(f"--- {process.name}, attempt {attempt}, {now}\n".encode())
    except OSError as error:
        raise UsageError(f"{process.log}: {error.strerror}; make room, or give another --out") from None
    return log


class LogReader:
    """The output of one process in this attempt, read from its log."""

    def __init__(self, process: ProcessSpec):
        self._prefix = process.name.encode() + b" | "
        self._file = process.log.open("rb")  # held: a run that starts anew moves its folder's logs aside
        self._begin = self._file.seek(0, os.SEEK_END)
        self._unfinished = b""

    def show(self) -> None:
        """Print the whole lines that have come since the last call."""
        *lines, self._unfinished = (self._unfinished + self._file.read()).split(b"\n")
        STDOUT.write(b"".join(self._prefix + line + b"\n" for line in lines))

    def last_lines(self, num_lines: int) -> list[str]:
        """The last lines of this attempt, at most so many, without empty ones."""
        length = os.fstat(self._file.fileno()).st_size
        begin = max(self._begin, length - TAIL_BYTES)
        text = os.pread(self._file.fileno(), length - begin, begin).decode(errors="replace")
        return [line for line in text.splitlines() if line.strip()][-num_lines:]

    def close(self) -> None:
        if self._unfinished:
            STDOUT.write(self._prefix + self._unfinished + b"\n")
        self._file.close()
