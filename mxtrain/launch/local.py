"""A whole job on this machine: what `fit` starts for a dist_* store where no DMLC_* says that it is started."""

from __future__ import annotations

import random
import secrets
import socket
import sys
from pathlib import Path
from typing import Sequence

from mxtrain.config import Run, checks
from mxtrain.core.errors import UsageError
from mxtrain.launch import plan
from mxtrain.launch.plan import LOOPBACK
from mxtrain.launch.supervisor import policy, supervise

# Below what Linux gives to outgoing connections, which would take a port between our look and its use.
PORTS = range(20000, 32000)


def run(run: Run, argv: Sequence[str] | None = None) -> int:
    """Scheduler, servers and workers over loopback, each with these same flags; the job's exit code."""
    checks.check(run)
    flags = tuple(sys.argv[1:] if argv is None else argv)
    logs, token = Path(run.output.out) / "logs", secrets.token_hex(16)

    def group(generation: int) -> list[plan.Process]:
        cluster = plan.Cluster(LOOPBACK, _free_port(), run.layout.num_workers, run.layout.num_servers)
        return plan.local(cluster, plan.fit(flags), logs, token, generation)

    return supervise(group, policy(run))


def _free_port() -> int:
    for port in random.sample(PORTS, 100):
        with socket.socket() as probe:
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            return port
    raise UsageError(f"no free port from {PORTS[0]} to {PORTS[-1]} on {LOOPBACK}; end what holds them")
