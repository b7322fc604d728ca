"""The one way to a dist_* store: ps-lite meets the other processes while it is made."""

from __future__ import annotations

from typing import Any

from mxtrain.cluster import unix_sockets
from mxtrain.runtime import mx


def open_store(name: str) -> Any:
    """The store of that name, whose socket in this process nobody but this user can reach."""
    with unix_sockets.private():
        return mx.kv.create(name)
