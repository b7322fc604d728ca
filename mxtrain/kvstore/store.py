"""Opening a `dist_*` store, and starting ps-lite for it. Owns nothing of what travels through it."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator

from mxtrain.cluster import ps_lite, unix_sockets
from mxtrain.core.errors import RestartMe
from mxtrain.runtime import mx
from mxtrain.runtime.types import KVStore


def open_store(name: str) -> KVStore:
    """Return the KVStore `name` (`dist_sync`, `dist_async`, ...), connected to all processes of the cluster."""
    with starting_ps_lite():
        return mx.kv.create(name)


@contextlib.contextmanager
def starting_ps_lite() -> Iterator[None]:
    """A block in which ps-lite starts: its sockets are readable for this user only, its threads are watched."""
    mx.nd.zeros(
        (1,)
    ).wait_to_read()  # MXNet's own threads start with its first operation, and are not watched
    try:
        with unix_sockets.private(), ps_lite.THREADS.being_started(ps_lite.num_threads(os.environ)):
            yield
    except mx.base.MXNetError as error:
        if "DMLC_LOCAL" not in os.environ or "bind failed" not in str(error):
            raise
        raise RestartMe(
            f"{unix_sockets.FOLDER}: ps-lite could not make its socket there; make room, or set DMLC_LOCAL=0 for TCP"
        ) from error
