"""A host's share of a job, for one life.

Owns the processes of this host, as `supervisor.py` owns those of a whole job; whether there is another life is
decided where the job was started, and the exit code says what has to be known there. Standard input holds the share
and then signals; its end is the end of whoever started this, and of this.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from io import FileIO
from pathlib import Path
from typing import Any, Iterator

from mxtrain import config
from mxtrain.core.die_with_parent import SUPERVISOR_PID
from mxtrain.core.errors import RESTART_ME, UsageError
from mxtrain.launch import hosts, logs
from mxtrain.launch.attempt import STOPS, Ending, StopRequests, live, stop_requests
from mxtrain.launch.plan import WORKER
from mxtrain.launch.supervisor import cause, describe, judge, policy

DIED = 1


def live_share() -> int:
    """Live the share on standard input; the exit code says how that ended."""
    os.environ.pop(SUPERVISOR_PID, None)  # srun hands its own environment on, and is no parent of this
    # Not sys.stdin: a thread that waits in its buffer holds a lock that Python wants at its own end.
    lines = FileIO(sys.stdin.fileno(), closefd=False)
    line = lines.readline()
    if not line:
        raise UsageError("no share on standard input; `launch ssh` and `launch srun` give it")
    share = hosts.from_json(line.decode())
    run = config.parse(share.flags)
    has_workers = any(role.startswith(WORKER) for role in share.roles)
    with stop_requests() if has_workers else _no_wishes() as wished:
        threading.Thread(target=_listen, args=(lines, wished), daemon=True).start()
        processes = hosts.processes(share, Path(run.output.out) / "logs")
        endings = live(processes, share.generation, policy(run).patience, wished)
    return verdict(endings, wished.exit_code)


def verdict(endings: list[Ending], wished: int | None) -> int:
    """The exit code for this host: "restart me" where the cause lies elsewhere."""
    code = judge(endings, wished)
    if code is not None:
        return code
    ending = cause(endings)
    logs.say(describe(ending))
    return RESTART_ME if ending.code == RESTART_ME else DIED


@contextlib.contextmanager
def _no_wishes() -> Iterator[StopRequests]:
    """Servers alone go on after a signal: it is for workers elsewhere, who still need them for a checkpoint."""
    for number in STOPS:
        signal.signal(number, _nothing)
    yield StopRequests()


def _nothing(number: int, frame: Any) -> None:
    """A handler, and not SIG_IGN, which the processes started here would inherit."""


def _listen(lines: FileIO, wished: StopRequests) -> None:
    for line in lines:
        os.kill(os.getpid(), signal.Signals[line.decode().strip()])
    # As with a death, and not as with a stop, which would be one for workers on all hosts.
    logs.say("whoever started this has gone; leaving too")
    wished.numbers.extend([signal.SIGTERM, signal.SIGTERM])  # the second means: at once
