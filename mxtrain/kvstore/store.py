"""Opening a cluster's store, and starting ps-lite for one with servers. Owns nothing of what travels through it."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator, Sequence

from mxtrain.cluster import ps_lite, unix_sockets
from mxtrain.cluster.worker_group import WorkerGroup
from mxtrain.config.components import stores
from mxtrain.core.errors import RestartMe
from mxtrain.data.fields import Array
from mxtrain.kvstore import shared_servers
from mxtrain.kvstore.allreduce.store import AllreduceStore
from mxtrain.kvstore.shared_servers import SharedServersStore
from mxtrain.optim.sums import block_tables
from mxtrain.runtime import mx
from mxtrain.runtime.types import Device, KVStore, NDArray, SummingStore


def open_store(name: str, group: WorkerGroup) -> SummingStore:
    """Return the store `name` (`dist_sync`, `allreduce`, ...) of the workers `group`, connected to all of them."""
    if stores.has_servers(name):
        kv, servers = _servers(name), shared_servers.connect(group)
        return SharedServersStore(kv, servers) if servers else kv
    numbers, hosts = [peer.number for peer in group.peers], [str(peer.host) for peer in group.peers]
    return AllreduceStore(group.rank, numbers, hosts)


def open_servers(name: str, group: WorkerGroup) -> KVStore:
    """Return MXNet's store `name`, connected to the servers and all other processes; it shares no memory with them."""
    kv = _servers(name)
    for server in shared_servers.connect(group):  # servers wait for all workers
        server.close()
    return kv


def _servers(name: str) -> KVStore:
    with starting_ps_lite():
        return mx.kv.create(name)


def new_arrays(
    kv: SummingStore,
    keys: Sequence[str],
    sizes: Sequence[int],
    context: Device,
    lengths: Sequence[Array] = (),
) -> list[NDArray]:
    """Return zeros of these sizes, known to the store by these keys; where it can it adds them where they are.

    The blocks of an array there have these `lengths`. All workers call it, with the same keys of the same sizes, and
    none continues before all have.
    """
    if isinstance(kv, (AllreduceStore, SharedServersStore)) and context == mx.cpu():
        return kv.new_arrays(keys, sizes, lengths)
    arrays = [mx.nd.zeros((size,), ctx=context) for size in sizes]
    kv.init(list(keys), arrays)
    return arrays


def tables_of(kv: SummingStore, keys: Sequence[str]) -> list[Array] | None:
    """Return the tables of arrays, which the store can round while it adds them; None where it cannot, or not all."""
    if not isinstance(kv, (AllreduceStore, SharedServersStore)) or kv.num_workers != block_tables.NUM_WORKERS:
        return None
    return [kv.tables[key] for key in keys] if all(key in kv.tables for key in keys) else None


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
