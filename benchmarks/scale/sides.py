"""The processes of each side: one worker alone, two independent ones, two that make steps together over a store."""

from __future__ import annotations

import functools
import os
import secrets
import sys
from pathlib import Path
from typing import Callable

from benchmarks.harness.groups import Process, ProcessGroup, cluster
from benchmarks.scale.worker import TIMEOUTS
from mxtrain.config.components import stores

ALONE, APART = "one worker", "two, each alone"
WITH_SERVER, WITHOUT = "dist_sync", "allreduce"  # two together, over this store
SERVER = 1  # its place among the children of WITH_SERVER's group


def worker(net: str, core: int, store: str = "local") -> list[object]:
    return [sys.executable, "-m", "benchmarks.scale.worker", net, core, store]


def alone(net: str) -> ProcessGroup:
    return ProcessGroup([Process(worker(net, 0), {})], num_workers=1)


def apart(net: str) -> ProcessGroup:
    return ProcessGroup([Process(worker(net, core), {}) for core in range(2)], num_workers=2)


def together(net: str, store: str) -> ProcessGroup:
    fit = [sys.executable, "-m", "mxtrain.fit", "--kvstore", store, *TIMEOUTS]

    def line(name: str) -> list[object]:
        return worker(net, int(name[-1]), store) if "worker" in name else fit

    num_servers = stores.num_servers(store, 1)
    return cluster(line, num_workers=2, num_servers=num_servers, MXTRAIN_JOB=secrets.token_hex(16))


SIDES: dict[str, Callable[[str], ProcessGroup]] = {
    **{ALONE: alone, APART: apart},
    **{store: functools.partial(together, store=store) for store in (WITH_SERVER, WITHOUT)},
}


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used so far."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
