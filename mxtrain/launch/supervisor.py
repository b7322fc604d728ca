"""The supervisor of a group of processes, which starts again as a whole when one of them dies.

ps-lite can neither replace a server nor take a worker back without changing the curve, so when one process dies all
end, and the group starts again from its newest checkpoint: after a pause, and only so often without a newer one.
Owns the decision on another attempt. Does not own what the exits of one mean (`exits.py`), how the others learn of a
death (the control channel, `mxtrain/cluster/`) nor the end of those that do not leave by themselves (`attempt.py`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Sequence, Tuple

from mxtrain.cluster import unix_sockets
from mxtrain.config import Run
from mxtrain.config.flags import program
from mxtrain.core import durable, folder_lock
from mxtrain.core.errors import RESTART_ME, USAGE
from mxtrain.launch import logs
from mxtrain.launch.attempt import (
    POLL_SECONDS,
    GracePeriods,
    StopRequests,
    run_attempt,
    stop_requests,
)
from mxtrain.launch.exits import (
    FINAL_CODES,
    GAVE_UP,
    ProcessExit,
    exit_message,
    job_exit_code,
    permanent_error,
    root_cause,
    summary,
)
from mxtrain.launch.plan import WORKER, ProcessSpec

MAX_PAUSE_SECONDS = 60.0
ProcessFactory = Callable[[int], List[ProcessSpec]]  # from an attempt's number to its processes
Checkpoints = Dict[int, Tuple[int, int]]  # by step; the value tells one from another of the same step


@dataclasses.dataclass(frozen=True)
class RestartPolicy:
    """The rules for starting a group again, and for how long its processes are waited for."""

    checkpoints: Callable[[], Checkpoints]
    max_restarts: int = 3
    first_pause_seconds: float = 1.0
    progress_seconds: float = (
        120.0  # servers alone may see no checkpoints: so long an attempt counts as progress
    )
    grace: GracePeriods = dataclasses.field(default_factory=GracePeriods)
    out: Path | None = None  # the run folder, which has to stay the same from attempt to attempt
    is_whole: bool = True  # this group is all of its job, and no other launcher may have the run folder
    resume: str = "auto"  # where the first attempt begins


def restart_policy(run: Run, words: Sequence[str] = (), is_whole: bool = True) -> RestartPolicy:
    """The policy that a run's flags ask for; `words` are these, and perhaps a program, which may outlive its run.

    `is_whole` is False where other launchers start other parts of the job.
    """
    has_program = bool(program.split(words)[1])
    return RestartPolicy(
        checkpoints=lambda: checkpoints(Path(run.output.out)),
        max_restarts=run.layout.max_restarts,
        progress_seconds=2 * run.layout.start_timeout,
        grace=GracePeriods(
            done_seconds=float("inf") if has_program else GracePeriods.done_seconds,
            # A hanging worker is noticed after --stall-timeout; until then one that stops may be writing.
            stop_seconds=run.layout.stall_timeout + GracePeriods.death_seconds,
            stopped_seconds=run.layout.silence_timeout + GracePeriods.death_seconds,
        ),
        out=Path(run.output.out),
        is_whole=is_whole,
        resume=run.output.resume,
    )


def supervise(processes: ProcessFactory, policy: RestartPolicy) -> int:
    """Run attempts until the job is done, stopped or given up, and return its exit code."""
    unix_sockets.sweep()  # also of an earlier job that was killed as a whole
    attempts: list[list[ProcessExit]] = []
    restarts = _Restarts(policy)
    with stop_requests() as requests, _same_folder(policy) as is_same_folder:
        while True:
            exits = run_attempt(processes(len(attempts)), len(attempts), policy.grace, requests)
            attempts.append(exits)
            code = job_exit_code(exits, requests.exit_code)
            if code in FINAL_CODES:
                logs.print_message(exit_message(root_cause(exits)))
            if code is None and not is_same_folder():
                code = _missing_folder(policy)
            if code is None:
                code = restarts.next_attempt(exits, requests)
            if code is None and not is_same_folder():
                code = _missing_folder(policy)
            if code is not None:
                break
    unix_sockets.sweep()
    logs.print_message(summary(attempts))
    return code


class _Restarts:
    """The restarts without progress, and the error that repeats before the first step."""

    def __init__(self, policy: RestartPolicy):
        self._policy = policy
        self._older = policy.checkpoints()  # not this job's own
        self._newest = -1
        self._num_restarts = 0
        self._error: str | None = None

    def next_attempt(self, exits: list[ProcessExit], requests: StopRequests) -> int | None:
        """Wait for the next attempt and return None; or return the exit code of a job that has none."""
        policy, newest_before = self._policy, self._newest
        self._newest = max(newest_before, newest_step(policy.checkpoints(), self._older))
        if self._newest > newest_before or _counts_as_progress(exits, policy):
            self._num_restarts = 0
        error_before, self._error = self._error, permanent_error(exits) if self._newest < 0 else None
        is_last = self._num_restarts == policy.max_restarts
        if is_last or (self._error is not None and self._error == error_before):
            return _give_up(exits, policy, is_last)
        self._num_restarts += 1
        _announce_restart(exits, self._num_restarts, policy, self._newest)
        return _pause(pause_seconds(self._num_restarts, policy), requests)


@contextlib.contextmanager
def _same_folder(policy: RestartPolicy) -> Iterator[Callable[[], bool]]:
    """Yield a function that checks that the run folder is still the one that was there, or was made, at the start.

    No other job has it meanwhile.
    """
    out = policy.out
    if out is None:
        yield lambda: True
        return
    with durable.writing(out):
        out.mkdir(parents=True, exist_ok=True)
        # As long as it is open, its inode's number is not given to another one.
        descriptor = os.open(out, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def is_same() -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), out.stat())
        except OSError as error:  # a disk that does not answer now may hold it all the same
            return error.errno not in (*durable.GONE, errno.ENOTDIR)

    try:
        folder_lock.lock_for_job(out, descriptor, policy.is_whole)
        yield is_same
    finally:
        os.close(descriptor)


def _missing_folder(policy: RestartPolicy) -> int:
    """Report it: another attempt would find no checkpoint, and begin at step 1 as if there had been none."""
    logs.print_message(
        f"--out {policy.out}: is not there any more, or is another folder than this job began in, and with it its "
        "checkpoints; put it back, then the same command resumes; without it that begins anew"
    )
    return USAGE


def checkpoints(out: Path) -> Checkpoints:
    """The checkpoints of a run folder by step, from the names alone: the workers find out which are whole."""
    found: Checkpoints = {}
    for path in (out / "checkpoints").glob("step-*"):
        step = path.name[len("step-") :]
        try:
            if step.isdecimal():
                found[int(step)] = (path.stat().st_ino, path.stat().st_mtime_ns)
        except OSError:  # an old one that has just been deleted
            continue
    return found


def newest_step(now: Checkpoints, older: Checkpoints) -> int:
    """The newest checkpoint's step among those that this job has made; -1 for none."""
    return max((step for step, identity in now.items() if older.get(step) != identity), default=-1)


def _counts_as_progress(exits: list[ProcessExit], policy: RestartPolicy) -> bool:
    has_worker = any(each.process.role == WORKER for each in exits)
    return not has_worker and max(each.lasted_seconds for each in exits) > policy.progress_seconds


def pause_seconds(num_restarts: int, policy: RestartPolicy) -> float:
    """The pause before the next attempt, which doubles with each restart without progress."""
    return min(policy.first_pause_seconds * 2.0 ** (num_restarts - 1), MAX_PAUSE_SECONDS)


def resume_point(policy: RestartPolicy, newest: int) -> str:
    """Words for where the next attempt resumes; `newest` is the last step this job has saved, -1 for none."""
    if policy.resume != "auto" and newest < 0:
        return "the beginning" if policy.resume == "never" else policy.resume
    step = newest if policy.resume != "auto" else max(policy.checkpoints(), default=None)
    return "the newest checkpoint, if there is one" if step is None else f"step {step}"


def _announce_restart(
    exits: list[ProcessExit], num_restarts: int, policy: RestartPolicy, newest: int
) -> None:
    exited = root_cause(exits)
    _print_last_lines(exited)
    where, now = resume_point(policy, newest), time.strftime("%H:%M:%S")
    logs.print_message(
        f"at {now} {exit_message(exited)}; restart {num_restarts} of {policy.max_restarts} in "
        f"{pause_seconds(num_restarts, policy):g} s from {where}"
    )


def _give_up(exits: list[ProcessExit], policy: RestartPolicy, is_last: bool) -> int:
    """Report it and return the exit code; a group without restarts of its own leaves them to whoever started it."""
    exited = root_cause(exits)
    _print_last_lines(exited)
    if not policy.max_restarts:
        logs.print_message(f"{exit_message(exited)}; the same command resumes from the newest checkpoint")
        return RESTART_ME
    reason = f"after {policy.max_restarts} restarts without a newer checkpoint (--max-restarts)"
    if not is_last:
        reason = "as it was the same in the attempt before, and no step was taken in either"
    logs.print_message(f"{exit_message(exited)}; given up {reason}; see {exited.process.log}")
    return GAVE_UP


def _print_last_lines(exited: ProcessExit) -> None:
    """Print the last lines of the process that failed, where the terminal has not had them."""
    if not exited.was_shown and exited.code != RESTART_ME:
        logs.print_lines(exited.process.name, exited.last_lines)


def _pause(seconds: float, requests: StopRequests) -> int | None:
    """Wait for the next attempt; a signal ends the job, which has nothing to save, and its exit code is returned."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and requests.exit_code is None:
        time.sleep(POLL_SECONDS)
    return requests.exit_code
