"""The processes of a job as plain data: names, commands, environments and logs.

Owns what a process finds in its environment. Pure functions; does not own the starting of processes
(`attempt.py`) nor their distribution over hosts (`hosts.py`).
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Sequence

from mxtrain.config import Layout
from mxtrain.config.components import stores

SCHEDULER, SERVER, WORKER = ROLES = ("scheduler", "server", "worker")
LOOPBACK = "127.0.0.1"
NODE = "MXTRAIN_NODE"  # a process's name in messages, and its place in the order of workers
# glibc keeps memory that ps-lite frees for its next message: memory from the kernel is cleared page by page first.
MALLOC_ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(8 << 30)}
GENERATION = "MXTRAIN_GENERATION"  # the attempt's number, where one supervisor starts the whole job
RESTARTS = "MXTRAIN_RESTARTS"  # restarts of this part of the job, where attempts have no common number
JOB_ID = "MXTRAIN_JOB_ID"  # by which a job recognises its own checkpoints; left out, the token does
ROOT_FLAG = "MXTRAIN_ROOT_FLAG"  # the flag that set the scheduler's address or port, for messages about them


@dataclasses.dataclass(frozen=True, eq=False)
class ProcessSpec:
    """One process to start.

    `environment` is added to the supervisor's own, `stdin` is the text on its standard input.
    """

    name: str
    argv: tuple[str, ...]
    environment: dict[str, str]
    log: Path
    stdin: str = ""

    @property
    def role(self) -> str:
        """Scheduler, server or worker, from the name."""
        return self.name.split("-")[0]


@dataclasses.dataclass(frozen=True)
class JobSpec:
    """The address and port of a job's scheduler, and the numbers of its workers and servers."""

    root: str
    port: int
    num_workers: int
    num_servers: int


def counts(layout: Layout) -> tuple[int, int]:
    """The numbers of workers and servers of a job with this layout."""
    return layout.num_workers, stores.num_servers(layout.kvstore, layout.num_servers)


def fit_command(flags: Sequence[str]) -> tuple[str, ...]:
    """The command line of every role, with the flags of fit."""
    return (sys.executable, "-m", "mxtrain.fit", *flags)


def node_process(
    spec: JobSpec, name: str, argv: tuple[str, ...], logs: Path, **environment: str
) -> ProcessSpec:
    """The process `name` of a job, as a dmlc tracker would start it, with more in its environment."""
    dmlc = {
        "DMLC_ROLE": name.split("-")[0],
        "DMLC_PS_ROOT_URI": spec.root,
        "DMLC_PS_ROOT_PORT": str(spec.port),
        "DMLC_NUM_WORKER": str(spec.num_workers),
        "DMLC_NUM_SERVER": str(spec.num_servers),
        **MALLOC_ENVIRONMENT,
        "PYTHONUNBUFFERED": "1",  # a log holds all that was printed, however the process ended
    }
    return ProcessSpec(name, argv, {**dmlc, **environment}, logs / f"{name}.log")


def node_names(spec: JobSpec) -> list[str]:
    """The names of all processes of a job."""
    return [
        SCHEDULER,
        *(f"{SERVER}-{index}" for index in range(spec.num_servers)),
        *(f"{WORKER}-{index}" for index in range(spec.num_workers)),
    ]


def local_processes(
    spec: JobSpec, argv: tuple[str, ...], logs: Path, token: str, attempt: int
) -> list[ProcessSpec]:
    """All processes of a job on this machine, which are reached over loopback alone."""
    own = {"DMLC_NODE_HOST": LOOPBACK, "MXTRAIN_JOB": token, GENERATION: str(attempt)}
    return [node_process(spec, name, argv, logs, **own, **{NODE: name}) for name in node_names(spec)]
