"""A run as a guest in the process of a Python program: what it changes there is put back.

Owns the log, MXNet's generators, and that there is one run at a time. Ctrl-C is `train/signals.py`'s; how MXNet
compiles and casts is put back by `train/net/build_net.py`, which changes it.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from typing import Iterator

from mxtrain import runtime
from mxtrain.checkpoint import run_folder
from mxtrain.core.errors import UsageError

_running = threading.Lock()


@contextlib.contextmanager
def isolated_run() -> Iterator[None]:
    """A block for one run, after which the caller's process is as before, but for an mxnet that is loaded by then.

    UsageError within another such block, in any thread: MXNet's generators and the way it compiles are shared.
    """
    if not _running.acquire(blocking=False):
        raise UsageError("another run is at work in this process; wait for its end, or start another process")
    path = list(sys.path)  # on which the user's modules are looked for
    try:
        gc.collect()  # nets of earlier runs: Gluon's blocks are in circles, which Python may leave for gigabytes
        with run_folder.log_of_caller(), _generators_left_as_found():
            yield
    finally:
        sys.path[:] = path
        _running.release()


@contextlib.contextmanager
def _generators_left_as_found() -> Iterator[None]:
    """A block after which MXNet draws for the caller as if it had not been.

    Its generators have no state that could be read: they are seeded by a number drawn from them before.
    """
    is_loaded = "mxnet" in sys.modules
    seed = _drawn_seed() if is_loaded else 0
    try:
        yield
    finally:
        if is_loaded:
            runtime.load().random.seed(seed)


def _drawn_seed() -> int:
    return int(runtime.load().nd.random.randint(0, 2**31 - 1, shape=(1,)).asscalar())
