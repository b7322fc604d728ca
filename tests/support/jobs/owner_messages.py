"""Messages of the owners' protocol as bytes, and connections of a worker to a server, for tests of wrong ones."""

from __future__ import annotations

import socket
import time

import numpy as np

from mxtrain.kvstore import connections
from mxtrain.kvstore.owners.messages import HEAD, PURPOSES, Head


def message(head: Head, body: bytes = b"", num_bytes: int | None = None) -> bytes:
    return HEAD.pack(*head._replace(num_bytes=len(body) if num_bytes is None else num_bytes)) + body


def integers(*numbers: int) -> bytes:
    return np.array(numbers, np.int64).tobytes()


def ends_of(number: int) -> dict[bytes, socket.socket]:
    """Connections of a worker to the server with this number."""
    found = {}
    for purpose in PURPOSES:
        connection = connections.connect(number, purpose, 0, time.monotonic() + 20)
        assert connection is not None
        connection.settimeout(20)
        found[purpose] = connection
    return found
