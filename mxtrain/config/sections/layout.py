"""Flags of the devices and processes that share the computation."""

from __future__ import annotations

import dataclasses

from mxtrain.config.components.choices import HOLD_ALL, ON_WORKERS
from mxtrain.config.components.stores import STORES
from mxtrain.config.sections.flag import flag


@dataclasses.dataclass(frozen=True)
class Layout:
    """Devices and processes that share the computation. None of these changes the loss curve."""

    kvstore: str = flag("device", f"where gradients are summed: {' | '.join(STORES)}")
    devices: str = flag("cpu", "contexts of this worker: cpu, cpu:0,1 or gpu:0,1")
    update: str = flag(
        ON_WORKERS,
        "who moves the weights of dist_sync: workers, each all of them | servers, each its share, with the optimizer's "
        "state of these",
    )
    hold: str = flag(
        HOLD_ALL,
        "what of the net a worker holds: all | layers (those that it computes now, as --remat cuts it; weights and the "
        "optimizer are with their owners)",
    )
    stages: int = flag(
        1,
        "as many devices hold a part of the net each, and micro-batches go through them one after the other; 1: each "
        "device holds all of it",
    )
    store_dir: str = flag(
        "",
        "owners of weights and of rows of tables (--update servers, or this process: of weights with --hold layers, of "
        "rows always) keep all of it in files of this folder, of which only what is in use has to be in memory",
    )
    num_workers: int = flag(1, "worker processes; more than one needs allreduce or a dist_* kvstore")
    num_servers: int = flag(1, "server processes of a dist_* kvstore")
    min_workers: int = flag(
        0, "continue with this many workers if others do not join in time; 0: only with all of them"
    )
    start_timeout: float = flag(60.0, "seconds in which all processes of a cluster must have joined")
    silence_timeout: float = flag(10.0, "seconds without a heartbeat after which a process is given up")
    stall_timeout: float = flag(120.0, "seconds without progress after which a worker is given up")
    max_restarts: int = flag(3, "restarts of a cluster in a row without progress in between")
    threads: int = flag(0, "OpenMP threads of an operator; 0: this process's share of the cores")
