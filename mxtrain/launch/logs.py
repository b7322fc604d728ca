"""What a job says: a log of each process, and the terminal.

Processes write into their logs themselves, so that none waits for a supervisor that is stopped or for a terminal that
does not read; what the terminal shows is read back from there.
"""

from __future__ import annotations

import os
import time
from typing import BinaryIO, Sequence

from mxtrain.core.errors import UsageError
from mxtrain.launch.plan import Process
from mxtrain.launch.terminal import Terminal

STDOUT, STDERR = Terminal(1), Terminal(2)
TAIL_BYTES = 1 << 16


def repeat(name: str, lines: Sequence[str]) -> None:
    STDOUT.write("".join(f"{name} | {line}\n" for line in lines).encode())


def say(line: str) -> None:
    """A line of the supervisor's own."""
    STDERR.write(f"mxtrain.launch: {line}\n".encode())


def opened(process: Process, generation: int) -> BinaryIO:
    """The log, to append to, with a line that says where this life begins."""
    when = time.strftime("%Y-%m-%d %H:%M:%S")
    try:
        process.log.parent.mkdir(parents=True, exist_ok=True)
        log = process.log.open("ab", buffering=0)
        log.write(f"--- {process.name}, life {generation}, {when}\n".encode())
    except OSError as error:
        raise UsageError(f"{process.log}: {error.strerror}; make room, or give another --out") from None
    return log


class Heard:
    """What one process says in this life, read from its log."""

    def __init__(self, process: Process):
        self._prefix = process.name.encode() + b" | "
        self._file = process.log.open("rb")  # held: a run that starts anew moves its folder's logs aside
        self._begin = self._file.seek(0, os.SEEK_END)
        self._unfinished = b""

    def show(self) -> None:
        """Put on the terminal the whole lines that have come since."""
        *lines, self._unfinished = (self._unfinished + self._file.read()).split(b"\n")
        STDOUT.write(b"".join(self._prefix + line + b"\n" for line in lines))

    def last(self, num_lines: int) -> list[str]:
        """The end of what was said."""
        length = os.fstat(self._file.fileno()).st_size
        begin = max(self._begin, length - TAIL_BYTES)
        text = os.pread(self._file.fileno(), length - begin, begin).decode(errors="replace")
        return [line for line in text.splitlines() if line.strip()][-num_lines:]

    def close(self) -> None:
        if self._unfinished:
            STDOUT.write(self._prefix + self._unfinished + b"\n")
        self._file.close()
