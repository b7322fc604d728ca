"""Opening a `dist_*` store. Owns nothing of what travels through it."""

from __future__ import annotations

from typing import Any

from mxtrain.cluster import unix_sockets
from mxtrain.runtime import mx


def open_store(name: str) -> Any:
    """Return the KVStore `name` (`dist_sync`, `dist_async`, ...), connected to all processes of the cluster.

    While it is made, ps-lite creates sockets in this process; they are readable for this user only.
    """
    with unix_sockets.private():
        return mx.kv.create(name)
