"""The verdict that ends a job, and a process's immediate exit with it, whatever its main thread is blocked in.

Owns how a process of a cluster writes its reason and exits. Every step is bounded in time: stderr may be a pipe whose
reader is frozen. Does not own who decides on a verdict (`coordinator.py`, `agent.py`).
"""

from __future__ import annotations

import dataclasses
import faulthandler
import os
import select
import signal
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

STDERR_SECONDS = 0.4
MAX_REASON_LENGTH = 4000
STOPS = {USAGE: UsageError, DATA: DataError, DIVERGED: Diverged, RESTART_ME: RestartMe}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Exit code and reason with which all processes of the job end; `stuck` nodes print their stacks."""

    exit_code: int
    reason: str
    stuck: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", as_one_line(self.reason))

    def as_message(self) -> dict[str, Any]:
        """Return the message that carries it to the other processes."""
        return {"kind": "verdict", **dataclasses.asdict(self)}

    def as_stop(self) -> Stop:
        """Return the exception that ends a command the same way."""
        if self.exit_code in STOPS:
            return STOPS[self.exit_code](self.reason)
        return Stopped(self.reason, self.exit_code)


def from_message(message: dict[str, Any]) -> Verdict:
    """Return the verdict that a message carries."""
    return Verdict(int(message["exit_code"]), str(message["reason"]), tuple(message["stuck"]))


def exit_process(verdict: Verdict, name: str) -> NoReturn:
    """End this process, the node `name`; the reason is written last, where a supervisor looks for it."""
    try:
        if name in verdict.stuck:
            write_stderr(_stacks())
        if verdict.reason:
            write_stderr(f"mxtrain.fit: {verdict.reason}\n")
    finally:
        os._exit(verdict.exit_code & 0xFF)


def write_stderr(text: str) -> None:
    """Write to stderr past all buffers, for STDERR_SECONDS at most."""
    left, deadline = text.encode(errors="replace"), time.monotonic() + STDERR_SECONDS
    # A pipe that selects as writable has room for PIPE_BUF bytes.
    while left and select.select([], [2], [], max(0.0, deadline - time.monotonic()))[1]:
        left = left[os.write(2, left[: select.PIPE_BUF]) :]


def write_stacks_at_signal() -> None:
    """Have SIGUSR2 write all stacks of this process to stderr, whatever its threads wait for; it goes on."""
    faulthandler.register(signal.SIGUSR2, file=2, all_threads=True)


def write_late(name: str, reason: str) -> None:
    """Say on stderr why a process waits for the next attempt of its job."""
    write_stderr(f"mxtrain.fit: {name} {reason} and waits for the job's next attempt\n")


def describe_progress(phase: str, step: int) -> str:
    """Return the end of a sentence that tells how far a process came."""
    if step >= 0:
        return f", at step {step} ({phase})"
    return ", before its first step" if phase else ""


def as_one_line(reason: str) -> str:
    """Return `reason` as one printable line of bounded length, whatever a remote process put in it."""
    line = "".join(letter if letter.isprintable() else " " for letter in " ".join(reason.split()))
    return line if len(line) <= MAX_REASON_LENGTH else line[:MAX_REASON_LENGTH] + "..."


def _stacks() -> str:
    with os.fdopen(os.memfd_create("stacks"), "w+b") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        return file.read().decode(errors="replace")
