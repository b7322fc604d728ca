"""Messages between workers and the servers that own weights: a head of fixed size, then numbers as they are in memory.

Owns their form. A message says what it is, of which parameter and step, and how many bytes follow. Both sides know what
must follow; nothing is unpickled.
"""

from __future__ import annotations

import enum
import socket
import struct
from typing import NamedTuple, Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.kvstore.connections import octets

HEAD = struct.Struct("<BiqQ")
MOST_TEXT = 1 << 26
ENDED = b"."
# What a worker's connections are for: gradients; requests, each with an answer; to tell its end.
PUSHES, REQUESTS, WATCH = b"pushes", b"requests", b"watch"


class Kind(enum.IntEnum):
    """What a message is."""

    LAYOUT = 1
    PUT = 2
    PULL = 3
    PUSH = 4
    FINISH = 5
    APPLY = 6
    DROP = 7
    READ_STATE = 8
    WRITE_STATE = 9
    READ_COUNTS = 10
    WRITE_COUNTS = 11
    PULL_SUM = 12
    DONE = 13


class Head(NamedTuple):
    """The head of a message."""

    kind: int
    parameter: int = -1
    step: int = -1
    num_bytes: int = 0  # that follow


def send(connection: socket.socket, head: Head, parts: Sequence[Array | bytes] = ()) -> None:
    """Send a message of these parts, whose bytes `head` need not count."""
    views = [part if isinstance(part, bytes) else octets(part) for part in parts if len(part)]
    connection.sendall(HEAD.pack(*head._replace(num_bytes=sum(map(len, views)))))
    for view in views:
        connection.sendall(view)


def receive_head(connection: socket.socket) -> Head:
    """Return the next message's head; EOFError where the connection has ended."""
    content = bytearray(HEAD.size)
    _receive(connection, memoryview(content))
    return Head(*HEAD.unpack(content))


def receive_into(connection: socket.socket, array: Array) -> None:
    """Fill a flat array with what follows."""
    if len(array):
        _receive(connection, octets(array))


def receive_bytes(connection: socket.socket, num_bytes: int) -> bytes:
    """Return a text that follows; ValueError for one that nobody sends."""
    if num_bytes > MOST_TEXT:
        raise ValueError(f"a text of {num_bytes} bytes")
    content = bytearray(num_bytes)
    _receive(connection, memoryview(content))
    return bytes(content)


def receive_array(connection: socket.socket, count: int, dtype: type) -> Array:
    """Return an array of `count` numbers that follows."""
    array: Array = np.empty(count, dtype)
    receive_into(connection, array)
    return array


def _receive(connection: socket.socket, rest: memoryview) -> None:
    while rest:
        count = connection.recv_into(rest)
        if not count:
            raise EOFError
        rest = rest[count:]
