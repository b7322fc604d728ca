"""The processes of each side: one worker alone, two independent ones, two that make steps together."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Callable

from benchmarks.harness.groups import Process, ProcessGroup, cluster
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
    fit = [sys.executable, "-m", "mxtrain.fit", *CLUSTER]

    def line(name: str) -> list[object]:
        return worker(net, int(name[-1])) if "worker" in name else fit

    return cluster(line, num_workers=2, num_servers=1, MXTRAIN_JOB=secrets.token_hex(16))


SIDES: dict[str, Callable[[str], ProcessGroup]] = {ALONE: alone, APART: apart, TOGETHER: together}


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used so far."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
