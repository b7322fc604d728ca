"""The OpenMP threads of one operator of mxnet, which are set before, and again after, its import.

How many they are is worked out by `core/system/machine.py`. The engine's thread alone has them. Each thread that begins
a parallel stretch keeps a team for good, idle or not, and once there are more threads in teams than cores libgomp has
those that wait for each other sleep in the place of spinning: at every stretch of every operator the engine then waits
for a thread to wake up. So whoever calls mxnet copies arrays, and puts their numbers in order, by itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
from typing import Iterator

from mxtrain.core.system import machine
from mxtrain.runtime import import_shims

log = logging.getLogger("mxtrain.runtime")

NEVER = str(2**31 - 1)  # so many numbers of an array are copied by a team


@contextlib.contextmanager
def team_of(local_workers: int, threads: int | None) -> Iterator[int]:
    """Set, for the import, the OpenMP threads of an operator, and yield them; MXNet's own default is half the cores."""
    os.environ.setdefault("MXNET_CPU_PARALLEL_SIZE", NEVER)
    with _share(local_workers, threads) as team:
        yield team
    if os.environ.get("MXNET_ENGINE_TYPE") != "NaiveEngine":  # which computes in the thread that calls it
        team = 1
    # MXNet sets its engine's threads.
    ctypes.CDLL("libgomp.so.1").omp_set_num_threads(team)


@contextlib.contextmanager
def _share(local_workers: int, threads: int | None) -> Iterator[int]:
    """Set the threads of a process's share of the cores, unless the user has.

    MXNET_OMP_MAX_THREADS rather than OMP_NUM_THREADS, because MXNet then gives the processes it forks (loader
    workers) one thread each instead of a full team, and because libgomp reads OMP_NUM_THREADS only once, when
    whoever comes first loads it. A user's OMP_NUM_THREADS still wins over the share, as they expect.
    """
    users = machine.thread_variable()
    if threads is None and users is not None:
        log.debug("OpenMP threads from %s=%s", users, os.environ[users])
        yield machine.threads_of_variable()
        return
    team = machine.openmp_threads(threads or 0, local_workers)
    os.environ["MXNET_OMP_MAX_THREADS"] = str(team)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(team))
    with import_shims.without_variable("OMP_NUM_THREADS"):
        yield team
    log.debug("%d OpenMP threads, of %d usable cores", team, machine.usable_cores())
