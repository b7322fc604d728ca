"""Opening a cluster's store, and starting ps-lite for one with servers. Owns nothing of what travels through it."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator

from mxtrain.cluster import ps_lite, unix_sockets
from mxtrain.cluster.worker_group import WorkerGroup
from mxtrain.config.components import stores
from mxtrain.core.errors import RestartMe
from mxtrain.kvstore.allreduce.store import AllreduceStore
from mxtrain.runtime import mx
from mxtrain.runtime.types import KVStore, NDArray, SummingStore


def open_store(name: str, group: WorkerGroup) -> SummingStore:
    """Return the store `name` (`dist_sync`, `allreduce`, ...) of the workers `group`, connected to all of them."""
    if stores.has_servers(name):
        return open_servers(name)
    numbers, hosts = [peer.number for peer in group.peers], [str(peer.host) for peer in group.peers]
    return AllreduceStore(group.rank, numbers, hosts)


def open_servers(name: str) -> KVStore:
    """Return MXNet's store `name`, connected to the servers and all other processes of the cluster."""
    with starting_ps_lite():
        return mx.kv.create(name)


def push_sums(kv: SummingStore, key: str, array: NDArray, is_rounded: bool) -> None:
    """Have `array` replaced by its sum over all workers; `is_rounded` it travels between hosts in bfloat16."""
    if is_rounded:
        assert isinstance(kv, AllreduceStore), "servers add float32 alone, and a check says so"
        kv.pushpull(key, array, is_rounded=True)
    else:
        kv.pushpull(key, array)


def wait_for(kv: SummingStore, key: str) -> None:
    """Wait for the sums of a key where their readers would not, as they do for those of MXNet's stores."""
    if isinstance(kv, AllreduceStore):
        kv.wait(key)


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
