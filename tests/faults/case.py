"""One fault: who is struck, how, and when; and what became of the job.

Moments are told from outside, by what a job has written so far.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
from pathlib import Path
from typing import Callable, List, Tuple

from tests.faults.job import (
    NUM_STEPS,
    STEPS_PER_EPOCH,
    SUPERVISOR,
    Job,
    cluster,
    is_same,
    result,
    started,
    until,
)
from tests.support.runs import has_step, is_writing

COME_SECONDS = 120  # until the moment is there
REFUSED_SECONDS = 30  # from the fault until the job has ended with an error
DONE_SECONDS = 150  # from the fault until it has ended well, with all the work that it still had to do
CHANCES = 3
RECOVERED, STOPPED, REFUSED, HUNG, WRONG = "recovered", "stopped", "refused", "hung", "wrong"
GOES_ON = (75, 130, 143, -signal.SIGTERM, -signal.SIGKILL)  # with the same command
ERRORS = (1, 2, 3, 4)

IsDue = Callable[[Job, float], bool]  # so many seconds after the first signal
Signals = List[Tuple[IsDue, signal.Signals]]


def roles(num_workers: int) -> list[str]:
    return ["scheduler", "server-0", *(f"worker-{number}" for number in range(num_workers)), SUPERVISOR]


def after(seconds: float) -> IsDue:
    return lambda job, passed_seconds: passed_seconds >= seconds


def alone(job: Job, passed_seconds: float) -> bool:
    return job.traces.pids() == [job.process.pid]


FAULTS: dict[str, Signals] = {
    "SIGKILL": [(after(0), signal.SIGKILL)],
    "SIGTERM": [(after(0), signal.SIGTERM)],
    "frozen": [(after(0), signal.SIGSTOP)],
    # Shorter and longer than --silence-timeout.
    "frozen for 0.7 s": [(after(0), signal.SIGSTOP), (after(0.7), signal.SIGCONT)],
    "frozen for 4 s": [(after(0), signal.SIGSTOP), (after(4), signal.SIGCONT)],
}
# Nobody ends a supervisor that stays frozen, so it is thawed when there is nobody left to supervise.
SUPERVISOR_FAULTS = {**FAULTS, "frozen": [(after(0), signal.SIGSTOP), (alone, signal.SIGCONT)]}


def _in_evaluation(job: Job, role: str) -> bool:
    """Of the second epoch: its checkpoint is there, its score not."""
    step = 2 * STEPS_PER_EPOCH
    return (job.out / "checkpoints" / f"step-{step:08d}").exists() and not job.is_scored(step)


PHASES: dict[str, Callable[[Job, str], object]] = {
    "start": lambda job, role: job.pid(role),
    "rendezvous": lambda job, role: "global batch" in job.logged(),
    "first step": lambda job, role: (job.out / "metrics.jsonl").exists(),
    "mid-epoch": lambda job, role: has_step(job.out, STEPS_PER_EPOCH + 3),
    "evaluation": _in_evaluation,
    "checkpoint": lambda job, role: has_step(job.out, 2) and is_writing(job.out),
    "exit": lambda job, role: job.is_scored(NUM_STEPS),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """`delay_seconds` after the moment `phase` has come."""

    role: str
    fault: str
    phase: str
    delay_seconds: float = 0.0
    num_workers: int = 2

    def __str__(self) -> str:
        late = f" + {self.delay_seconds:.2f} s" if self.delay_seconds else ""
        several = f", one of {self.num_workers} workers" if self.num_workers > 2 else ""
        return f"{self.role} {self.fault}, {self.phase}{late}{several}"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How the job took it; `seconds` is the longest that it then made no progress, or what it took to end."""

    how: str
    seconds: float
    said: str

    def but(self, problem: str) -> Outcome:
        return Outcome(WRONG, self.seconds, f"{problem}\n{self.said}")


MATRIX = [Case(role, fault, phase) for role in roles(2) for fault in FAULTS for phase in PHASES]


def run(case: Case, folder: Path, data: list[str], whole: tuple[object, ...]) -> Outcome:
    """What a job over `data` makes of this fault; `whole` is what it comes to without.

    On a busy machine a short moment may pass unseen; another job has it too.
    """
    for chance in range(CHANCES):
        flags = [*data, *cluster(case.num_workers)]
        outcome = _struck_in_time(case, folder / f"job-{chance}", flags, whole)
        if outcome is not None:
            return outcome
    return Outcome(WRONG, 0.0, f"the moment never came, in {CHANCES} jobs")


def _struck_in_time(case: Case, folder: Path, flags: list[str], whole: tuple[object, ...]) -> Outcome | None:
    """None where the job has gone through undisturbed."""
    folder.mkdir(parents=True)
    with started(folder, *flags) as job:
        come = until(lambda: PHASES[case.phase](job, case.role) or job.has_ended(), COME_SECONDS)
        if job.process.poll() == 0:
            return None
        if not come or job.has_ended():
            return Outcome(WRONG, 0.0, f"the moment never came\n{job.said()}")
        time.sleep(case.delay_seconds)
        outcome = _struck(job, case)
        left = job.traces.left()
    if left:
        return outcome.but(f"left behind: {', '.join(left)}")
    if outcome.how == STOPPED:
        with started(folder, *flags) as again:
            if not until(again.has_ended, DONE_SECONDS) or again.process.returncode:
                return outcome.but(f"the same command does not go on\n{again.said()}")
    if outcome.how in (RECOVERED, STOPPED) and not is_same(result(job.out), whole, case.num_workers):
        return outcome.but("another curve")
    return outcome


def _struck(job: Job, case: Case) -> Outcome:
    """Send the fault's signals when they are due, and watch until the job has ended."""
    faults = SUPERVISOR_FAULTS if case.role == SUPERVISOR else FAULTS
    pid, step, due = job.pid(case.role), job.step(), list(faults[case.fault])
    began, standstill_seconds, further = time.monotonic(), 0.0, 0.0
    while True:
        code, seconds = job.process.poll(), time.monotonic() - began
        if due and pid and due[0][0](job, seconds):
            with contextlib.suppress(ProcessLookupError):  # it was done, or the others have ended it
                os.kill(pid, due.pop(0)[1])
            job.traces.note_ports()
        if code is not None or job.step() > step:
            step, standstill_seconds, further = (
                job.step(),
                max(standstill_seconds, seconds - further),
                seconds,
            )
        if code is not None:
            return _judged(job, code, seconds, standstill_seconds)
        if seconds > DONE_SECONDS:
            return Outcome(HUNG, seconds, job.said())
        time.sleep(0.02)


def _judged(job: Job, code: int, seconds: float, standstill_seconds: float) -> Outcome:
    if "Traceback" in job.said() + job.logged():
        return Outcome(WRONG, seconds, f"a traceback\n{job.said()}{job.logged()}")
    if code in GOES_ON:
        return Outcome(STOPPED, seconds, job.said())
    if code == 0:
        return Outcome(RECOVERED, standstill_seconds, job.said())
    late = seconds > REFUSED_SECONDS or code not in ERRORS
    return Outcome(
        WRONG if late else REFUSED, seconds, f"exit code {code} after {seconds:.1f} s\n{job.said()}"
    )
