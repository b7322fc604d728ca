"""Messages between workers and the servers that own weights: a head of fixed size, then numbers as they are in memory.

Owns their form. A message says what it is, of which parameter and step, how many items it has, and how many bytes
follow. Both sides know what must follow; nothing is unpickled.
"""

from __future__ import annotations

import enum
import socket
import struct
from typing import NamedTuple, Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.kvstore.connections import octets

HEAD = struct.Struct("<BiqIQ")
MOST_TEXT = 1 << 26
SMALL = 1 << 16  # bytes that travel together with what is before them
# What a worker's connections are for: gradients; requests, each with an answer; to tell its end.
PUSHES, REQUESTS, WATCH = b"pushes", b"requests", b"watch"
PURPOSES = (PUSHES, REQUESTS, WATCH)
ANY_STEP = -1


class Message(enum.IntEnum):
    """The meaning of a message."""

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
    PULL_SUMS = 12
    DONE = 13
    # Of rows of tables (`kvstore/tables/`):
    TABLES = 14
    PULL_ROWS = 15
    PREFETCH_ROWS = 16
    MOVED_ROWS = 17
    PUSH_ROWS = 18
    FINISH_ROWS = 19
    NUM_ROWS = 20
    BEGIN_ROWS = 21
    ROWS_WRITTEN = 22
    READ_ROWS = 23


class Head(NamedTuple):
    """The head of a message."""

    message: int
    parameter: int = -1  # or a table
    step: int = ANY_STEP
    num_items: int = 0  # wide blocks, parameters, arrays, ids, or pushes
    num_bytes: int = 0  # that follow


def check(head: Head, is_right: bool) -> None:
    """Raise ValueError where a message is none that a worker sends."""
    if not is_right:
        raise ValueError(f"a message that no worker sends: {head}")


def send(connection: socket.socket, head: Head, parts: Sequence[Array | bytes] = ()) -> None:
    """Send a message of these parts, whose bytes `head` need not count."""
    views = [part if isinstance(part, bytes) else octets(part) for part in parts if len(part)]
    small = [HEAD.pack(*head._replace(num_bytes=sum(map(len, views))))]
    for view in views:
        if len(view) <= SMALL:
            small.append(bytes(view))
            continue
        connection.sendall(b"".join(small))
        connection.sendall(view)
        small = []
    if small:
        connection.sendall(b"".join(small))


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
