"""The OpenMP threads of one operator of mxnet, which are set before, and again after, its import.

How many they are is worked out by `core/system/machine.py`.
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


@contextlib.contextmanager
def team_of(local_workers: int, threads: int | None) -> Iterator[int]:
    """Set, for the import, the OpenMP threads of an operator, and yield them; MXNet's own default is half the cores.

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
    # MXNet sets its engine's threads; this one computes as well under MXNET_ENGINE_TYPE=NaiveEngine.
    ctypes.CDLL("libgomp.so.1").omp_set_num_threads(team)
    log.debug("%d OpenMP threads, of %d usable cores", team, machine.usable_cores())
