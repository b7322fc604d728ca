"""The exits of a job's processes, and what they mean for the job.

Pure functions. Owns which exit is the cause, its words, and the exit code with which it ends the job. Does not own the
waiting for exits (`attempt.py`) nor the decision on another attempt (`supervisor.py`).
"""

from __future__ import annotations

import dataclasses
import re
import signal

from mxtrain.cluster import ps_lite
from mxtrain.core.errors import (
    DATA,
    DIVERGED,
    DONE,
    MEMORY_REMEDY,
    OUT_OF_MEMORY,
    RESTART_ME,
    SIGHUP,
    SIGINT,
    SIGTERM,
    USAGE,
)
from mxtrain.core.system import out_of_memory
from mxtrain.launch.plan import SCHEDULER, WORKER, ProcessSpec

FROM_C = 127  # what glibc ends with where a thread has no room for its variables
FROM_MXNET = 255  # what MXNet ends with after a segmentation fault, where its own end has no other
GAVE_UP = 1  # and what Python ends with after a traceback
FINAL_CODES = (USAGE, DATA, DIVERGED)  # starting again does not help
# What the last line of a process holds besides its error, and errors that may pass by themselves.
PREFIX = re.compile(
    r"^.* exit code \d+: |\bmxtrain[.\w]*: |\b(?:scheduler|server|worker)(?:-\d+)?: |0x[0-9a-f]+"
)
TRANSIENT = re.compile(
    r", at step [1-9]|was killed by SIG|did not end by itself|OSError|\[Errno|Connection|Timeout|[Mm]emory|new thread"
)
# ps-lite ends its process by SIGABRT where a message is not as it expects.
PS_LITE_CHECK = re.compile(r"/ps-lite/src/.*Check failed: (.*)")


@dataclasses.dataclass(frozen=True)
class ProcessExit:
    """The end of a process: `code` is its exit code, or minus the signal that killed it."""

    process: ProcessSpec
    code: int
    lasted_seconds: float
    was_terminated: bool  # by its supervisor, as it did not end by itself
    was_shown: bool  # the terminal has its output
    last_lines: tuple[str, ...]
    memory: str = ""  # what is known of a shortage of memory that may have ended it


def workers_or_all(processes: list[ProcessSpec]) -> list[ProcessSpec]:
    """The processes whose exits decide: the workers; all, where no worker is among these."""
    return [process for process in processes if process.role == WORKER] or processes


def ends_the_job(exited: ProcessExit) -> bool:
    """True for a scheduler that stops: all have saved by then, or have nothing to save; a worker left has missed it."""
    return exited.process.role == SCHEDULER and exited.code != DONE


def job_exit_code(exits: list[ProcessExit], stop_code: int | None) -> int | None:
    """The exit code with which an attempt ends the job; None where another attempt follows.

    `stop_code` is the exit code of a stop request to the supervisor, None without any.
    """
    deciding = workers_or_all([each.process for each in exits])
    if all(each.code == DONE for each in exits if each.process in deciding):
        return DONE
    own_codes = [each.code for each in exits if not each.was_terminated]
    final = next((code for code in own_codes if code in FINAL_CODES), None)
    if stop_code is not None:
        return stop_code if final is None else final
    # Somebody else's signal to one worker: they agree on a step, and all stop there. Before the rendezvous it leaves
    # at once, and the others miss it later, which is then no mistake of theirs.
    return next((code for code in own_codes if code in (*FINAL_CODES, SIGHUP, SIGINT, SIGTERM)), None)


def root_cause(exits: list[ProcessExit]) -> ProcessExit:
    """The exit that ended the attempt: the others leave for it, with "restart me" or its words, or are terminated.

    Where all were terminated it is the first: a process that was held by SIGSTOP, for which they waited.
    """

    def order(exited: ProcessExit) -> tuple[int, bool]:
        own = exited.last_lines and exited.last_lines[-1].startswith(f"mxtrain.fit: {exited.process.name}: ")
        if exited.was_terminated:
            return 3, False
        return 0 if exited.code in FINAL_CODES else {RESTART_ME: 2, DONE: 4}.get(exited.code, 1), not own

    return min(exits, key=order)


def exit_message(exited: ProcessExit) -> str:
    """A few words on how a process ended, and its last line where it says the reason."""
    name = exited.process.name
    if exited.was_terminated:
        return f"{name} did not end by itself"
    if exited.code < 0:
        reason = _reason_of_memory(exited) or _reason_of_ps_lite(exited)
        return f"{name} was killed by {signal.Signals(-exited.code).name}{reason}"
    last = f": {exited.last_lines[-1]}" if exited.last_lines else ""
    last = last.replace(": mxtrain.fit: ", ": ", 1).replace(f": {name}: ", ": ", 1)
    if exited.code == RESTART_ME:
        return f"{name} left{last}"
    if exited.code == FROM_C:
        last = _reason_of_memory(exited) or last
    if exited.code == FROM_MXNET:
        last += _reason_of_memory(exited)
    return f"{name} ended with exit code {exited.code}{last}"


def _reason_of_memory(exited: ProcessExit) -> str:
    """C++ says that it was short of memory, or reads and writes what it was not given; Linux kills without a word."""
    lines = [line.strip() for line in exited.last_lines if out_of_memory.SIGNS.search(line)]
    if lines and exited.code in (-signal.SIGABRT, FROM_C):
        return f": {OUT_OF_MEMORY} ({lines[-1]}); {MEMORY_REMEDY}"
    return f"; {exited.memory}" if exited.memory else ""


def _reason_of_ps_lite(exited: ProcessExit) -> str:
    checks = [found for line in exited.last_lines for found in PS_LITE_CHECK.findall(line)]
    if exited.code != -signal.SIGABRT or not checks:
        return ""
    return f" in ps-lite ({checks[-1].strip()}), as where {ps_lite.STRANGERS}"


def permanent_error(exits: list[ProcessExit]) -> str | None:
    """The last line of a traceback before the first step, whichever process has it; None for one that may pass."""
    exited = root_cause(exits)
    line = exited.last_lines[-1] if exited.last_lines else ""
    if exited.was_terminated or exited.code != GAVE_UP or not line or TRANSIENT.search(line):
        return None
    return PREFIX.sub("", line)


def summary(attempts: list[list[ProcessExit]]) -> str:
    """A table of each process's last exit, and of its seconds over all attempts."""
    seconds: dict[str, float] = {}
    for each in (each for exits in attempts for each in exits):
        seconds[each.process.name] = seconds.get(each.process.name, 0.0) + each.lasted_seconds
    last = sorted(attempts[-1], key=lambda each: each.process.name)
    width = max(len(each.process.name) for each in last)
    lines = [
        f"  {each.process.name:{width}}  {_code(each):>8}  {seconds[each.process.name]:8.1f} s"
        for each in last
    ]
    noun = "attempt" if len(attempts) == 1 else "attempts"
    return "\n".join([f"{len(attempts)} {noun}, and at the end:", *lines])


def _code(exited: ProcessExit) -> str:
    return signal.Signals(-exited.code).name if exited.code < 0 else f"exit {exited.code}"
