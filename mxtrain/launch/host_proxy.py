"""The host proxy: a process here that the supervisor starts, signals and waits for in place of a host.

Owns the connection to the host: a command (ssh or srun) that starts `host_agent.py` there. Through its standard input
go first the host's plan, in private where command lines are for all to see, then the name of each signal. When this
process dies, in whatever way, that input ends and tells the host to end too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import Any, Sequence

from mxtrain.core.die_with_parent import die_with_parent
from mxtrain.core.interrupts import is_ignored
from mxtrain.launch.attempt import STOP_EXIT_CODES


def run_on_host(command: Sequence[str]) -> int:
    """Run `command` with the host plan that is on standard input, and return its exit code."""
    die_with_parent()
    host_plan = sys.stdin.read()
    reading, writing = os.pipe()
    is_started, early = False, []

    def forward(number: int, frame: Any) -> None:
        name = signal.Signals(number).name
        if is_started:
            _write_line(writing, name)
        else:
            early.append(name)

    for number in STOP_EXIT_CODES:
        if not is_ignored(number):
            signal.signal(number, forward)
    with subprocess.Popen(command, stdin=reading) as remote:
        os.close(reading)
        _write_line(writing, host_plan)
        is_started = True
        for name in early:
            _write_line(writing, name)
        code = remote.wait()
    return code if code >= 0 else 128 - code


def _write_line(pipe: int, line: str) -> None:
    """Write a line whole; the reader may have ended, which `wait` finds."""
    with contextlib.suppress(OSError):
        rest = (line + "\n").encode()
        while rest:
            rest = rest[os.write(pipe, rest) :]
