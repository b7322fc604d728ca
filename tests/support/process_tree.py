"""Processes that a process has started: those of a cluster, of a loader."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from tests.support.processes import warm_start


def children(pid: int) -> list[int]:
    """The direct children of a process, by their own records, but for those that start commands for these tests.

    /proc/PID/task/*/children goes with a thread that ends, or moves to one already read.
    """
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(path.parent.name))
    return sorted(set(found) - warm_start.helpers())


def roles(pid: int) -> dict[str, int]:
    """The process of each role, by the log that its supervisor gave it."""
    named = {}
    for child in children(pid):
        with contextlib.suppress(OSError):  # it has just ended
            log = Path(os.readlink(f"/proc/{child}/fd/2"))
            if log.suffix == ".log":
                named[log.stem] = child
    return named


def command_line(pid: int) -> bytes:
    """The arguments of a process, each ended by a zero; empty if it has gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
