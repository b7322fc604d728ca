"""One host as a process here: what the supervisor starts, signals and waits for in a host's place.

The command (ssh or srun) begins `host_agent.py` on the host. Through its standard input goes first the share, in
private where command lines are for all to see, then the name of each signal; and when this process
dies, however that comes about, the end of that input tells the host to end too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import Any, Sequence

from mxtrain.core.die_with_parent import die_with_parent
from mxtrain.launch.attempt import STOPS


def reach(command: Sequence[str]) -> int:
    """The exit code of `command`, which has ended; standard input holds the share."""
    die_with_parent()
    share = sys.stdin.read()
    reading, writing = os.pipe()
    begun, early = False, []

    def forward(number: int, frame: Any) -> None:
        name = signal.Signals(number).name
        if begun:
            _write(writing, name)
        else:
            early.append(name)

    for number in STOPS:
        signal.signal(number, forward)
    with subprocess.Popen(command, stdin=reading) as remote:
        os.close(reading)
        _write(writing, share)
        begun = True
        for name in early:
            _write(writing, name)
        code = remote.wait()
    return code if code >= 0 else 128 - code


def _write(pipe: int, line: str) -> None:
    """Whoever reads may have ended, which `wait` finds."""
    with contextlib.suppress(OSError):
        text = (line + "\n").encode()
        while text:
            text = text[os.write(pipe, text) :]
