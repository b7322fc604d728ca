"""The processes of each side: one worker alone, two independent ones, two that make steps together."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Callable

from benchmarks.comm.processes import Process, ProcessGroup, free_port
from benchmarks.scale.worker import CLUSTER

ALONE, APART, TOGETHER = "one worker", "two, each alone", "two together"
SERVER = 1  # its place among the children of TOGETHER's group


def worker(net: str, core: int) -> list[object]:
    return [sys.executable, "-m", "benchmarks.scale.worker", net, core]


def alone(net: str) -> ProcessGroup:
    return ProcessGroup([Process(worker(net, 0), {})], num_workers=1)


def apart(net: str) -> ProcessGroup:
    return ProcessGroup([Process(worker(net, core), {}) for core in range(2)], num_workers=2)


def together(net: str) -> ProcessGroup:
    common = {
        "DMLC_PS_ROOT_URI": "127.0.0.1",
        "DMLC_PS_ROOT_PORT": str(free_port()),
        "DMLC_NUM_WORKER": "2",
        "DMLC_NUM_SERVER": "1",
        "MXTRAIN_JOB": secrets.token_hex(16),
    }
    fit = [sys.executable, "-m", "mxtrain.fit", *CLUSTER]
    lines = {"scheduler": fit, "server-0": fit, "worker-0": worker(net, 0), "worker-1": worker(net, 1)}
    places = {name: {"DMLC_ROLE": name.split("-")[0], "MXTRAIN_NODE": name} for name in lines}
    return ProcessGroup([Process(lines[name], {**common, **places[name]}) for name in lines], num_workers=2)


SIDES: dict[str, Callable[[str], ProcessGroup]] = {ALONE: alone, APART: apart, TOGETHER: together}


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used so far."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
