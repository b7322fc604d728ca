"""One fault case: which process is hit, by what and when, and the outcome of the job.

Owns the faults, the phases and the classes of outcomes. Phases are recognised from outside, by what a job has written
so far.
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
    FaultJob,
    cluster,
    is_same_result,
    result,
    started,
    wait_for,
)
from tests.support.runs import has_step, is_writing

PHASE_SECONDS = 120  # until the phase is reached
REFUSED_SECONDS = 30  # from the fault until the job has ended with an error
DONE_SECONDS = 150  # from the fault until it has ended well, with all the work that it still had to do
NUM_TRIES = 3
RECOVERED, STOPPED, REFUSED, HUNG, WRONG = "recovered", "stopped", "refused", "hung", "wrong"
RESUMABLE = (75, 130, 143, -signal.SIGTERM, -signal.SIGKILL)  # the same command resumes
ERRORS = (1, 2, 3, 4)

IsDue = Callable[[FaultJob, float], bool]  # from the job and the seconds since the injection began
Signals = List[Tuple[IsDue, signal.Signals]]


def roles(num_workers: int) -> list[str]:
    return ["scheduler", "server-0", *(f"worker-{number}" for number in range(num_workers)), SUPERVISOR]


def after(seconds: float) -> IsDue:
    return lambda job, passed_seconds: passed_seconds >= seconds


def is_last(job: FaultJob, passed_seconds: float) -> bool:
    return job.traces.pids() == [job.process.pid]


FAULTS: dict[str, Signals] = {
    "SIGKILL": [(after(0), signal.SIGKILL)],
    "SIGTERM": [(after(0), signal.SIGTERM)],
    "frozen": [(after(0), signal.SIGSTOP)],
    # Shorter and longer than --silence-timeout.
    "frozen for 0.7 s": [(after(0), signal.SIGSTOP), (after(0.7), signal.SIGCONT)],
    "frozen for 4 s": [(after(0), signal.SIGSTOP), (after(4), signal.SIGCONT)],
}
# No process ends a supervisor that stays frozen, so it is thawed when no process is left to supervise.
SUPERVISOR_FAULTS = {**FAULTS, "frozen": [(after(0), signal.SIGSTOP), (is_last, signal.SIGCONT)]}


def _in_evaluation(job: FaultJob, role: str) -> bool:
    """True in the second evaluation: its checkpoint is there, its score is not."""
    step = 2 * STEPS_PER_EPOCH
    return (job.out / "checkpoints" / f"step-{step:08d}").exists() and not job.is_scored(step)


PHASES: dict[str, Callable[[FaultJob, str], object]] = {
    "start": lambda job, role: job.pid(role),
    "rendezvous": lambda job, role: "global batch" in job.logs(),
    "first step": lambda job, role: (job.out / "metrics.jsonl").exists(),
    "mid-epoch": lambda job, role: has_step(job.out, STEPS_PER_EPOCH + 3),
    "evaluation": _in_evaluation,
    "checkpoint": lambda job, role: has_step(job.out, 2) and is_writing(job.out),
    "exit": lambda job, role: job.is_scored(NUM_STEPS),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A fault of one process, `delay_seconds` after a phase is reached."""

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
class FaultOutcome:
    """The outcome of a job after a fault.

    `seconds` is its longest time without progress where it recovered, else the time until its end.
    """

    kind: str
    seconds: float
    output: str

    def but_wrong(self, problem: str) -> FaultOutcome:
        return FaultOutcome(WRONG, self.seconds, f"{problem}\n{self.output}")


MATRIX = [Case(role, fault, phase) for role in roles(2) for fault in FAULTS for phase in PHASES]


def run_case(
    case: Case,
    folder: Path,
    data: list[str],
    undisturbed: tuple[object, ...],
    first: Case | None = None,
) -> FaultOutcome:
    """Inject a fault into a job over `data` and return the outcome; `undisturbed` is the result without any fault.

    `first` is a fault of the same job from which it has to recover before. On a busy machine a short phase may pass
    unseen, so there are several tries, each with another job.
    """
    for index in range(NUM_TRIES):
        flags = [*data, *cluster(case.num_workers)]
        outcome = _inject_in_time(first, case, folder / f"job-{index}", flags, undisturbed)
        if outcome is not None:
            return outcome
    return FaultOutcome(WRONG, 0.0, f"the phase was never seen, in {NUM_TRIES} jobs")


def _inject_in_time(
    first: Case | None, case: Case, folder: Path, flags: list[str], undisturbed: tuple[object, ...]
) -> FaultOutcome | None:
    """The outcome; None where the job was done before the phase was seen."""
    folder.mkdir(parents=True)
    with started(folder, *flags) as job:
        for each in [first, case] if first else [case]:
            is_reached = _wait_for_phase(job, each)
            if job.process.poll() == 0:
                return None
            if not is_reached or job.has_ended():
                return FaultOutcome(WRONG, 0.0, f"the phase was never seen\n{job.output()}")
            time.sleep(each.delay_seconds)
            if each is first:
                _strike(job, each)
        outcome = _inject(job, case)
        left_behind = job.traces.left_behind()
    if left_behind:
        return outcome.but_wrong(f"left behind: {', '.join(left_behind)}")
    if outcome.kind == STOPPED:
        with started(folder, *flags) as again:
            if not wait_for(again.has_ended, DONE_SECONDS) or again.process.returncode:
                return outcome.but_wrong(f"the same command does not resume\n{again.output()}")
    if outcome.kind in (RECOVERED, STOPPED) and not is_same_result(
        result(job.out), undisturbed, case.num_workers
    ):
        return outcome.but_wrong("another curve")
    return outcome


def _wait_for_phase(job: FaultJob, case: Case) -> bool:
    return wait_for(lambda: PHASES[case.phase](job, case.role) or job.has_ended(), PHASE_SECONDS)


def _strike(job: FaultJob, case: Case) -> None:
    """Send the first signal of a fault."""
    pid = job.pid(case.role)
    assert pid is not None, f"{case.role} has gone\n{job.output()}"
    os.kill(pid, FAULTS[case.fault][0][1])


def _inject(job: FaultJob, case: Case) -> FaultOutcome:
    """Send the fault's signals when they are due, wait until the job has ended, and return the outcome."""
    faults = SUPERVISOR_FAULTS if case.role == SUPERVISOR else FAULTS
    pid, step, due = job.pid(case.role), job.step(), list(faults[case.fault])
    began, standstill_seconds, progress_seconds = time.monotonic(), 0.0, 0.0
    while True:
        code, seconds = job.process.poll(), time.monotonic() - began
        if due and pid and due[0][0](job, seconds):
            with contextlib.suppress(ProcessLookupError):  # it was done, or the others have ended it
                os.kill(pid, due.pop(0)[1])
            job.traces.record_ports()
        if code is not None or job.step() > step:
            step, standstill_seconds, progress_seconds = (
                job.step(),
                max(standstill_seconds, seconds - progress_seconds),
                seconds,
            )
        if code is not None:
            return _classify(job, code, seconds, standstill_seconds)
        if seconds > DONE_SECONDS:
            return FaultOutcome(HUNG, seconds, job.output())
        time.sleep(0.02)


def _classify(job: FaultJob, code: int, seconds: float, standstill_seconds: float) -> FaultOutcome:
    if "Traceback" in job.output() + job.logs():
        return FaultOutcome(WRONG, seconds, f"a traceback\n{job.output()}{job.logs()}")
    if code in RESUMABLE:
        return FaultOutcome(STOPPED, seconds, job.output())
    if code == 0:
        return FaultOutcome(RECOVERED, standstill_seconds, job.output())
    late = seconds > REFUSED_SECONDS or code not in ERRORS
    return FaultOutcome(
        WRONG if late else REFUSED, seconds, f"exit code {code} after {seconds:.1f} s\n{job.output()}"
    )
