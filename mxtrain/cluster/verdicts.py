"""How a process of a cluster leaves: at once, with the group's verdict, whatever its main thread hangs in.

Everything here is bounded: stderr may be a pipe whose reader is frozen.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import os
import select
import tempfile
import time
from typing import Any, NoReturn

from mxtrain.core.errors import (
    DATA,
    DIVERGED,
    RESTART_ME,
    USAGE,
    DataError,
    Diverged,
    RestartMe,
    Stop,
    Stopped,
    UsageError,
)

SAY_SECONDS = 0.4
REASON_LENGTH = 4000
STOPS = {USAGE: UsageError, DATA: DataError, DIVERGED: Diverged, RESTART_ME: RestartMe}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How all processes of the job end; `stuck` are those of whom the stacks are wanted."""

    exit_code: int
    reason: str
    stuck: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", readable(self.reason))

    def as_message(self) -> dict[str, Any]:
        return {"kind": "verdict", **dataclasses.asdict(self)}

    def as_stop(self) -> Stop:
        if self.exit_code in STOPS:
            return STOPS[self.exit_code](self.reason)
        return Stopped(self.reason, self.exit_code)


def of_message(message: dict[str, Any]) -> Verdict:
    return Verdict(int(message["exit_code"]), str(message["reason"]), tuple(message["stuck"]))


def leave(verdict: Verdict, name: str) -> NoReturn:
    """End this process, whose name is `name`; the reason comes last, where a supervisor looks for it."""
    try:
        if name in verdict.stuck:
            say(_stacks())
        if verdict.reason:
            say(f"mxtrain.fit: {verdict.reason}\n")
    finally:
        os._exit(verdict.exit_code & 0xFF)


def say(text: str) -> None:
    """Write to stderr, past all buffers, as long as it takes something."""
    left, deadline = text.encode(errors="replace"), time.monotonic() + SAY_SECONDS
    # A pipe that selects as writable has room for this much.
    while left and select.select([], [2], [], max(0.0, deadline - time.monotonic()))[1]:
        left = left[os.write(2, left[: select.PIPE_BUF]) :]


def place(phase: str, step: int) -> str:
    """The end of a sentence: what a process was at."""
    if step >= 0:
        return f", at step {step} ({phase})"
    return ", before its first step" if phase else ""


def readable(reason: str) -> str:
    """One line of bounded length for terminals and logs, whoever wrote it."""
    line = "".join(letter if letter.isprintable() else " " for letter in " ".join(reason.split()))
    return line if len(line) <= REASON_LENGTH else line[:REASON_LENGTH] + "..."


def _stacks() -> str:
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        return file.read().decode(errors="replace")
