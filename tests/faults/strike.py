"""A job that is struck by one fault after the other, and what became of it.

Owns the classes of outcomes. What a fault is, and when it is due, is `case.py`'s.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
from pathlib import Path
from typing import Sequence

from tests.faults.case import DONE_SECONDS, MESSAGES, REFUSED_SECONDS, Case, Injections
from tests.faults.job import FaultJob, result, started

NUM_TRIES = 3
RECOVERED, STOPPED, REFUSED, HUNG, WRONG = "recovered", "stopped", "refused", "hung", "wrong"
RESUMABLE = (75, 130, 143, -signal.SIGTERM, -signal.SIGKILL)  # the same command resumes
ERRORS = (1, 2, 3, 4)


@dataclasses.dataclass(frozen=True)
class FaultOutcome:
    """What became of a job after a fault: of its last one, or before the next.

    `seconds` is its longest time without progress where it recovered, else the time until its end.
    """

    case: Case
    kind: str
    seconds: float
    output: str


@dataclasses.dataclass
class _Blow:
    """A fault that has struck a process, and what of it is still to come."""

    case: Case
    pid: int
    time: float
    injections: Injections

    def inject_due(self, job: FaultJob) -> None:
        while self.injections and self.injections[0][0](job, self.pid, time.monotonic() - self.time):
            injection = self.injections.pop(0)[1]
            if not isinstance(injection, signal.Signals):
                injection(job, self.pid)
                continue
            with contextlib.suppress(ProcessLookupError):  # it was done, or the others have ended it
                os.kill(self.pid, injection)
            job.traces.record_ports()


def strike(
    cases: Sequence[Case], folder: Path, data: list[str], undisturbed: tuple[object, ...]
) -> list[FaultOutcome]:
    """Inject faults into one job over `data`, and return the outcomes of those for which it lasted long enough.

    `undisturbed` is the result without any fault. On a busy machine a short phase may pass unseen, so there are several
    tries for the first fault, each with another job.
    """
    for index in range(NUM_TRIES):
        outcomes = _strike_one_job(cases, folder / f"job-{index}", [*data, *cases[0].cluster], undisturbed)
        if outcomes:
            return outcomes
    return [FaultOutcome(cases[0], WRONG, 0.0, f"the phase was never seen, in {NUM_TRIES} jobs")]


def _strike_one_job(
    cases: Sequence[Case], folder: Path, flags: list[str], undisturbed: tuple[object, ...]
) -> list[FaultOutcome]:
    """The outcomes; a job that is stopped goes on with the same command, and the faults that are left with it."""
    folder.mkdir(parents=True)
    outcomes: list[FaultOutcome] = []
    over_tcp = {"DMLC_LOCAL": "0"} if any(case.fault in MESSAGES for case in cases) else {}
    while not outcomes or outcomes[-1].kind == STOPPED:
        with started(folder, *flags, **over_tcp) as job:
            more = _outcomes(job, *_blows(job, cases[len(outcomes) :]))
            code, left_behind = job.process.poll(), job.traces.left_behind()
        outcomes += more
        if left_behind or (code != 0 and not more):
            problem = f"left behind: {left_behind}" if left_behind else f"ended by itself with {code}"
            return _but_wrong(outcomes or [FaultOutcome(cases[0], WRONG, 0.0, job.output())], problem)
        if code == 0:
            break
    is_done = outcomes and outcomes[-1].kind in (RECOVERED, STOPPED)
    if is_done and result(folder / "run") != undisturbed:
        return _but_wrong(outcomes, "other bits")
    return outcomes


def _but_wrong(outcomes: list[FaultOutcome], problem: str) -> list[FaultOutcome]:
    last = outcomes[-1]
    return [*outcomes[:-1], dataclasses.replace(last, kind=WRONG, output=f"{problem}\n{last.output}")]


def _blows(job: FaultJob, cases: Sequence[Case]) -> tuple[list[_Blow], list[float]]:
    """Strike a job when faults are due, until it has ended or hangs; and note the times of its progress."""
    left = list(cases)
    blows: list[_Blow] = []
    progress: list[float] = []
    began, step = time.monotonic(), job.step()
    reached: float | None = None
    while not job.has_ended() and time.monotonic() - began < DONE_SECONDS:
        now = time.monotonic()
        if left and reached is None and now - began >= left[0].pause_seconds and left[0].is_reached(job):
            reached = now
        if reached is not None and now - reached >= left[0].delay_seconds:
            pid = job.pid(left[0].role)
            if pid is not None:
                blows.append(_Blow(left[0], pid, now, left[0].injections))
                left, began, reached = left[1:], now, None
        for blow in blows:
            blow.inject_due(job)
        if job.step() > step:
            step = job.step()
            progress.append(now)
        time.sleep(0.002 if left else 0.02)
    return blows, [*progress, time.monotonic()]


def _outcomes(job: FaultJob, blows: Sequence[_Blow], progress: Sequence[float]) -> list[FaultOutcome]:
    """The outcome of each fault; the end of the job is that of the last."""
    outcomes = [
        FaultOutcome(blow.case, RECOVERED, _standstill(blow.time, after.time, progress), job.output())
        for blow, after in zip(blows, blows[1:])
    ]
    return [*outcomes, _last_outcome(job, blows[-1], progress)] if blows else []


def _standstill(since: float, until: float, progress: Sequence[float]) -> float:
    """The longest time without progress that began after `since` and before `until`."""
    times = [since, *(each for each in progress if each > since)]
    return max(later - each for each, later in zip(times, times[1:]) if each < until)


def _last_outcome(job: FaultJob, blow: _Blow, progress: Sequence[float]) -> FaultOutcome:
    code, seconds, output = job.process.poll(), progress[-1] - blow.time, job.output()
    if code is None:
        return FaultOutcome(blow.case, HUNG, seconds, output + job.logs())
    if "Traceback" in output + job.logs():
        return FaultOutcome(blow.case, WRONG, seconds, f"a traceback\n{output}{job.logs()}")
    if code in RESUMABLE:
        return FaultOutcome(blow.case, STOPPED, seconds, output)
    if code == 0:
        return FaultOutcome(blow.case, RECOVERED, _standstill(blow.time, progress[-1], progress), output)
    late = seconds > REFUSED_SECONDS or code not in ERRORS
    kind = WRONG if late else REFUSED
    return FaultOutcome(blow.case, kind, seconds, f"exit code {code} after {seconds:.1f} s\n{output}")
