"""The processes of a job as plain data: who they are, what they run, what they find in their environment.

Pure functions; `supervise.py` brings the processes to life.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

SCHEDULER, SERVER, WORKER = ROLES = ("scheduler", "server", "worker")
LOOPBACK = "127.0.0.1"


@dataclasses.dataclass(frozen=True, eq=False)
class Process:
    """One process; `environment` is what it has besides its supervisor's."""

    name: str
    argv: tuple[str, ...]
    environment: dict[str, str]
    log: Path

    @property
    def role(self) -> str:
        return self.name.split("-")[0]


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Where a job meets, and how many it is."""

    root: str
    port: int
    num_workers: int
    num_servers: int


def fit(flags: tuple[str, ...]) -> tuple[str, ...]:
    """The one command of every role."""
    return (sys.executable, "-m", "mxtrain.fit", *flags)


def role(cluster: Cluster, name: str, argv: tuple[str, ...], logs: Path) -> Process:
    """One process, as a dmlc tracker would start it."""
    environment = {
        "DMLC_ROLE": name.split("-")[0],
        "DMLC_PS_ROOT_URI": cluster.root,
        "DMLC_PS_ROOT_PORT": str(cluster.port),
        "DMLC_NUM_WORKER": str(cluster.num_workers),
        "DMLC_NUM_SERVER": str(cluster.num_servers),
        "PYTHONUNBUFFERED": "1",  # a log holds all that was printed, however the process ended
    }
    return Process(name, argv, environment, logs / f"{name}.log")


def local(cluster: Cluster, argv: tuple[str, ...], logs: Path, token: str, generation: int) -> list[Process]:
    """All processes of a job on this machine, reached over loopback alone."""
    names = [
        SCHEDULER,
        *(f"{SERVER}-{number}" for number in range(cluster.num_servers)),
        *(f"{WORKER}-{number}" for number in range(cluster.num_workers)),
    ]
    own = {"DMLC_NODE_HOST": LOOPBACK, "MXTRAIN_JOB": token, "MXTRAIN_GENERATION": str(generation)}
    processes = [role(cluster, name, argv, logs) for name in names]
    return [
        dataclasses.replace(process, environment={**process.environment, **own, "MXTRAIN_NODE": process.name})
        for process in processes
    ]
