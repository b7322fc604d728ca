"""The host agent: one host's part of one attempt of a job, run on that host.

Owns the processes of this host as `supervisor.py` owns those of a whole job. Does not own the decision on another
attempt: the supervisor takes it where the job was started, from the exit code. Standard input holds the host's plan and
then the names of signals; where it ends, the host proxy has ended, and this ends too.
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
from mxtrain.config.flags import program
from mxtrain.core.die_with_parent import SUPERVISOR_PID
from mxtrain.core.errors import RESTART_ME, UsageError
from mxtrain.launch import hosts, logs
from mxtrain.launch.attempt import STOP_EXIT_CODES, StopRequests, run_attempt, stop_requests
from mxtrain.launch.exits import ProcessExit, exit_message, job_exit_code, root_cause
from mxtrain.launch.plan import WORKER
from mxtrain.launch.supervisor import restart_policy

DIED = 1


def run_host_plan() -> int:
    """Run the host plan on standard input, and return the exit code that tells the supervisor how it ended."""
    os.environ.pop(SUPERVISOR_PID, "")  # srun passes its own environment on, and is no parent of this
    # Not sys.stdin: a thread that waits in its buffer holds a lock that Python wants at its own end.
    lines = FileIO(sys.stdin.fileno(), closefd=False)
    line = lines.readline()
    if not line:
        raise UsageError("no host plan on standard input; `launch ssh` and `launch srun` give it")
    host_plan = hosts.from_json(line.decode())
    run = config.parse(program.split(host_plan.flags)[0])
    has_workers = any(role.startswith(WORKER) for role in host_plan.roles)
    with stop_requests() if has_workers else _ignored_signals() as requests:
        threading.Thread(target=_read_signals, args=(lines, requests), daemon=True).start()
        processes = hosts.host_processes(host_plan, Path(run.output.out) / "logs")
        exits = run_attempt(
            processes, host_plan.attempt, restart_policy(run, host_plan.flags).grace, requests
        )
    return host_exit_code(exits, requests.exit_code)


def host_exit_code(exits: list[ProcessExit], stop_code: int | None) -> int:
    """The exit code for this host: "restart me" where the cause lies elsewhere."""
    code = job_exit_code(exits, stop_code)
    if code is not None:
        return code
    cause = root_cause(exits)
    logs.print_message(exit_message(cause))
    return RESTART_ME if cause.code == RESTART_ME else DIED


@contextlib.contextmanager
def _ignored_signals() -> Iterator[StopRequests]:
    """Ignore signals where only servers run: they are for workers elsewhere, whose checkpoint needs the servers."""
    for number in STOP_EXIT_CODES:
        signal.signal(number, _ignore)
    yield StopRequests()


def _ignore(number: int, frame: Any) -> None:
    """Do nothing, as a handler and not SIG_IGN, which the processes started here would inherit."""


def _read_signals(lines: FileIO, requests: StopRequests) -> None:
    for line in lines:
        os.kill(os.getpid(), signal.Signals[line.decode().strip()])
    # As with a death, and not as with a stop, which would be one for workers on all hosts.
    logs.print_message("the supervisor has gone; leaving too")
    requests.signals.extend([signal.SIGTERM, signal.SIGTERM])  # the second means: at once
