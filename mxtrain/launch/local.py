"""A whole job on this machine: what `fit` starts for a dist_* store where no DMLC_* names its role."""

from __future__ import annotations

import random
import secrets
import socket
import sys
from pathlib import Path
from typing import Sequence

from mxtrain.config import Run
from mxtrain.config.checks import run_checks
from mxtrain.config.flags import program
from mxtrain.core import folder_lock
from mxtrain.core.errors import UsageError
from mxtrain.launch import plan
from mxtrain.launch.plan import LOOPBACK
from mxtrain.launch.supervisor import restart_policy, supervise

# Below what Linux gives to outgoing connections, which would take a port between the probe and its use.
PORTS = range(20000, 32000)


def launch(run: Run, argv: Sequence[str] | None = None) -> int:
    """Run scheduler, servers and workers over loopback and return the job's exit code.

    Each process gets the flags `argv`, or those of this command, with the program after them if there is one.
    """
    words = sys.argv[1:] if argv is None else argv
    if not program.split(words)[1]:  # what a program trains is checked when it calls `fit(...)`
        run_checks.check(run)
    folder_lock.refuse_where_locked(Path(run.output.out))
    command = plan.fit_command(words)
    logs, token = Path(run.output.out) / "logs", secrets.token_hex(16)

    def processes(attempt: int) -> list[plan.ProcessSpec]:
        spec = plan.JobSpec(LOOPBACK, free_port(), *plan.counts(run.layout))
        return plan.local_processes(spec, command, logs, token, attempt)

    return supervise(processes, restart_policy(run, words))


def free_port() -> int:
    """Return a port of PORTS that nothing on this machine listens at."""
    for port in random.sample(PORTS, 100):
        with socket.socket() as probe:
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            return port
    raise UsageError(f"no free port from {PORTS[0]} to {PORTS[-1]} on {LOOPBACK}; end what holds them")
