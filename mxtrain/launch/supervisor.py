"""A group of processes falls and rises as one.

ps-lite can neither replace a server nor take a worker back without changing the curve, so when one process dies all
end, and the group starts again from its newest checkpoint: after a pause, and only so often without coming further.
Owns what the endings of a life mean and whether there is another one. How the others learn of a death is the control
line's business; whoever does not leave by itself is ended by `attempt.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import re
import signal
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Tuple

from mxtrain.cluster import unix_sockets
from mxtrain.config import Run
from mxtrain.core import durable
from mxtrain.core.errors import DATA, DIVERGED, DONE, RESTART_ME, SIGINT, SIGTERM, USAGE
from mxtrain.launch import logs
from mxtrain.launch.attempt import (
    POLL_SECONDS,
    Ending,
    GracePeriod,
    StopRequests,
    deciding,
    live,
    stop_requests,
)
from mxtrain.launch.plan import WORKER, Process

GAVE_UP = 1  # and what Python ends with after a traceback
FINAL = (USAGE, DATA, DIVERGED)
LONGEST_PAUSE_SECONDS = 60.0
# What the last line of an ending holds besides the error, and what an error is that may pass by itself.
WHO = re.compile(
    r"^.* exit code \d+: |\bmxtrain[.\w]*: |\b(?:scheduler|server|worker)(?:-\d+)?: |0x[0-9a-f]+"
)
CHANCE = re.compile(
    r", at step [1-9]|was killed by SIG|did not end by itself|OSError|\[Errno|Connection|Timeout|[Mm]emory|new thread"
)

StartAttempt = Callable[[int], List[Process]]  # the processes of a life, from its number
Checkpoints = Dict[int, Tuple[int, int]]  # what tells a step's checkpoint from one that was there before


@dataclasses.dataclass(frozen=True)
class Policy:
    """When to start again, and how long to wait for whom."""

    checkpoints: Callable[[], Checkpoints]
    max_restarts: int = 3
    first_pause_seconds: float = 1.0
    settled_seconds: float = 120.0  # a server alone may see no checkpoints: so long a life has come further
    patience: GracePeriod = dataclasses.field(default_factory=GracePeriod)
    out: Path | None = None  # the run folder, which has to stay what it was from life to life
    resume: str = "auto"  # where the job itself begins


def policy(run: Run) -> Policy:
    return Policy(
        checkpoints=lambda: checkpoints(Path(run.output.out)),
        max_restarts=run.layout.max_restarts,
        settled_seconds=2 * run.layout.start_timeout,
        patience=GracePeriod(
            # A hanging worker is noticed after --stall-timeout; until then one that stops may be writing.
            stop_seconds=run.layout.stall_timeout + GracePeriod.death_seconds,
            stopped_seconds=run.layout.silence_timeout + GracePeriod.death_seconds,
        ),
        out=Path(run.output.out),
        resume=run.output.resume,
    )


def supervise(group: StartAttempt, policy: Policy) -> int:
    """Live until the job is done, stopped or beyond help; the exit code says which."""
    older, newest, num_restarts, told = policy.checkpoints(), -1, 0, None
    unix_sockets.sweep()  # also of an earlier job that was killed whole
    lives: list[list[Ending]] = []
    with stop_requests() as wished, _kept(policy.out) as is_there:
        while True:
            endings = live(group(len(lives)), len(lives), policy.patience, wished)
            lives.append(endings)
            code = judge(endings, wished.exit_code)
            if code in FINAL:
                logs.say(describe(cause(endings)))
            if code is None and not is_there():
                code = _without_folder(policy)
            if code is not None:
                break
            before, newest = newest, max(newest, newest_step(policy.checkpoints(), older))
            if newest > before or _is_settled(endings, policy):
                num_restarts = 0
            told_before, told = told, failure(endings) if newest < 0 else None
            is_last = num_restarts == policy.max_restarts
            if is_last or (told is not None and told == told_before):
                code = _give_up(endings, policy, is_last)
                break
            num_restarts += 1
            _tell(endings, num_restarts, policy, newest)
            code = _paused(num_restarts, policy, wished)
            if code is None and not is_there():
                code = _without_folder(policy)
            if code is not None:
                break
    unix_sockets.sweep()
    logs.say(summary(lives))
    return code


@contextlib.contextmanager
def _kept(out: Path | None) -> Iterator[Callable[[], bool]]:
    """A look whether the run folder is still the one that was there, or was made, when the job began."""
    if out is None:
        yield lambda: True
        return
    with durable.written(out):
        out.mkdir(parents=True, exist_ok=True)
        # As long as it is open, its inode's number is not given to another one.
        handle = os.open(out, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def is_there() -> bool:
        try:
            return os.path.samestat(os.fstat(handle), out.stat())
        except OSError as error:  # a disk that does not answer now may hold it all the same
            return error.errno not in (*durable.GONE, errno.ENOTDIR)

    try:
        yield is_there
    finally:
        os.close(handle)


def _without_folder(policy: Policy) -> int:
    """Another life would find no checkpoint, and begin at step 1 as if nothing had been."""
    logs.say(
        f"--out {policy.out}: is not there any more, or is another folder than this job began in, and with it its "
        "checkpoints; put it back, then the same command goes on; without it that begins anew"
    )
    return USAGE


def judge(endings: list[Ending], wished: int | None) -> int | None:
    """The exit code with which a life ends the job; None for another life."""
    at_work = deciding([ending.process for ending in endings])
    if all(ending.code == DONE for ending in endings if ending.process in at_work):
        return DONE
    by_themselves = [ending for ending in endings if not ending.was_terminated]
    final = next((ending.code for ending in by_themselves if ending.code in FINAL), None)
    if wished is not None:
        return wished if final is None else final
    # Somebody else's signal to one worker: they agree on a step, and all stop there. Before the roll call it leaves at
    # once, and the others miss it later, which is then no mistake of theirs.
    return next((ending.code for ending in by_themselves if ending.code in (*FINAL, SIGINT, SIGTERM)), None)


def cause(endings: list[Ending]) -> Ending:
    """The ending that ended the life: others leave for it, saying "restart me" or its words, or have to be pushed."""

    def rank(ending: Ending) -> tuple[int, bool]:
        own = ending.last_lines and ending.last_lines[-1].startswith(f"mxtrain.fit: {ending.process.name}: ")
        if ending.was_terminated:
            return 3, not own
        return 0 if ending.code in FINAL else {RESTART_ME: 2, DONE: 4}.get(ending.code, 1), not own

    return min(endings, key=rank)


def describe(ending: Ending) -> str:
    name = ending.process.name
    if ending.was_terminated:
        return f"{name} did not end by itself"
    if ending.code < 0:
        return f"{name} was killed by {signal.Signals(-ending.code).name}"
    last = f": {ending.last_lines[-1]}" if ending.last_lines else ""
    last = last.replace(": mxtrain.fit: ", ": ", 1).replace(f": {name}: ", ": ", 1)
    return (
        f"{name} left{last}"
        if ending.code == RESTART_ME
        else f"{name} ended with exit code {ending.code}{last}"
    )


def failure(endings: list[Ending]) -> str | None:
    """The words of a traceback before the first step, whoever says them; None where another life may do without it."""
    ending = cause(endings)
    words = ending.last_lines[-1] if ending.last_lines else ""
    if ending.was_terminated or ending.code != GAVE_UP or not words or CHANCE.search(words):
        return None
    return WHO.sub("", words)


def checkpoints(out: Path) -> Checkpoints:
    """By step, from the names of folders alone: whether they are whole is for the workers to find."""
    found: Checkpoints = {}
    for path in (out / "checkpoints").glob("step-*"):
        number = path.name[len("step-") :]
        try:
            if number.isdecimal():
                found[int(number)] = (path.stat().st_ino, path.stat().st_mtime_ns)
        except OSError:  # an old one that has just been deleted
            continue
    return found


def newest_step(now: Checkpoints, older: Checkpoints) -> int:
    """The newest that this job has made; -1 for none."""
    return max((step for step, identity in now.items() if older.get(step) != identity), default=-1)


def _is_settled(endings: list[Ending], policy: Policy) -> bool:
    has_worker = any(ending.process.role == WORKER for ending in endings)
    lasted_seconds = max(ending.lasted_seconds for ending in endings)
    return not has_worker and lasted_seconds > policy.settled_seconds


def pause_seconds(num_restarts: int, policy: Policy) -> float:
    return min(policy.first_pause_seconds * 2.0 ** (num_restarts - 1), LONGEST_PAUSE_SECONDS)


def next_start(policy: Policy, newest: int) -> str:
    """Where the next life goes on, after one with checkpoints up to step `newest`, -1 for none of this job's own."""
    if policy.resume != "auto" and newest < 0:
        return "the beginning" if policy.resume == "never" else policy.resume
    step = newest if policy.resume != "auto" else max(policy.checkpoints(), default=None)
    return "the newest checkpoint, if there is one" if step is None else f"step {step}"


def _tell(endings: list[Ending], num_restarts: int, policy: Policy, newest: int) -> None:
    ending = cause(endings)
    _repeat(ending)
    where = next_start(policy, newest)
    when = time.strftime("%H:%M:%S")
    logs.say(
        f"at {when} {describe(ending)}; restart {num_restarts} of {policy.max_restarts} in "
        f"{pause_seconds(num_restarts, policy):g} s from {where}"
    )


def _give_up(endings: list[Ending], policy: Policy, is_last: bool) -> int:
    """Without restarts of its own the group leaves them to whoever started it."""
    ending = cause(endings)
    _repeat(ending)
    if not policy.max_restarts:
        logs.say(f"{describe(ending)}; the same command goes on from the newest checkpoint")
        return RESTART_ME
    why = f"after {policy.max_restarts} restarts without a newer checkpoint (--max-restarts)"
    if not is_last:
        why = "as it was the same in the life before, and no step was taken in either"
    logs.say(f"{describe(ending)}; given up {why}; see {ending.process.log}")
    return GAVE_UP


def _repeat(ending: Ending) -> None:
    """The last words of who failed, where the terminal has not had them."""
    if not ending.was_shown and ending.code != RESTART_ME:
        logs.repeat(ending.process.name, ending.last_lines)


def _paused(num_restarts: int, policy: Policy, wished: StopRequests) -> int | None:
    """Wait for the next life; a signal ends the job, which has nothing to save."""
    until = time.monotonic() + pause_seconds(num_restarts, policy)
    while time.monotonic() < until and wished.exit_code is None:
        time.sleep(POLL_SECONDS)
    return wished.exit_code


def summary(lives: list[list[Ending]]) -> str:
    """How each process ended at last, over how many lives and seconds."""
    seconds: dict[str, float] = {}
    for ending in (ending for endings in lives for ending in endings):
        seconds[ending.process.name] = seconds.get(ending.process.name, 0.0) + ending.lasted_seconds
    last = sorted(lives[-1], key=lambda ending: ending.process.name)
    width = max(len(ending.process.name) for ending in last)
    lines = [
        f"  {ending.process.name:{width}}  {_code(ending):>8}  {seconds[ending.process.name]:8.1f} s"
        for ending in last
    ]
    return "\n".join([f"{len(lives)} {'life' if len(lives) == 1 else 'lives'}, and at the end:", *lines])


def _code(ending: Ending) -> str:
    return signal.Signals(-ending.code).name if ending.code < 0 else f"exit {ending.code}"
