"""The processes of a job as plain data: who they are, what they run, what they find in their environment.

Pure functions; `supervisor.py` brings the processes to life.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Sequence

SCHEDULER, SERVER, WORKER = ROLES = ("scheduler", "server", "worker")
LOOPBACK = "127.0.0.1"
NODE = "MXTRAIN_NODE"  # a process's name in messages, and its place in the order of workers
# Memory that ps-lite lets go of is kept for its next message: fetched anew, each page of it would be cleared first.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(8 << 30)}
GENERATION = "MXTRAIN_GENERATION"  # how often the whole job was started again, by whoever starts all of it
JOB_ID = "MXTRAIN_JOB_ID"  # by which a job knows its own checkpoints; left out: the token says it too
ROOT_FLAG = "MXTRAIN_ROOT_FLAG"  # the flag that set the scheduler's address or port, for messages about them
RESTARTS = "MXTRAIN_RESTARTS"  # how often this part of it was, where lives have no common number


@dataclasses.dataclass(frozen=True, eq=False)
class Process:
    """One process; `environment` is what it has besides its supervisor's, `stdin` what it may read."""

    name: str
    argv: tuple[str, ...]
    environment: dict[str, str]
    log: Path
    stdin: str = ""

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


def fit(flags: Sequence[str]) -> tuple[str, ...]:
    """The one command of every role."""
    return (sys.executable, "-m", "mxtrain.fit", *flags)


def role(cluster: Cluster, name: str, argv: tuple[str, ...], logs: Path, **more: str) -> Process:
    """One process as a dmlc tracker would start it, with `more` in its environment."""
    environment = {
        "DMLC_ROLE": name.split("-")[0],
        "DMLC_PS_ROOT_URI": cluster.root,
        "DMLC_PS_ROOT_PORT": str(cluster.port),
        "DMLC_NUM_WORKER": str(cluster.num_workers),
        "DMLC_NUM_SERVER": str(cluster.num_servers),
        **KEEP_MEMORY,
        "PYTHONUNBUFFERED": "1",  # a log holds all that was printed, however the process ended
    }
    return Process(name, argv, {**environment, **more}, logs / f"{name}.log")


def names(cluster: Cluster) -> list[str]:
    return [
        SCHEDULER,
        *(f"{SERVER}-{number}" for number in range(cluster.num_servers)),
        *(f"{WORKER}-{number}" for number in range(cluster.num_workers)),
    ]


def local(cluster: Cluster, argv: tuple[str, ...], logs: Path, token: str, generation: int) -> list[Process]:
    """All processes of a job on this machine, reached over loopback alone."""
    own = {"DMLC_NODE_HOST": LOOPBACK, "MXTRAIN_JOB": token, GENERATION: str(generation)}
    return [role(cluster, name, argv, logs, **own, **{NODE: name}) for name in names(cluster)]
