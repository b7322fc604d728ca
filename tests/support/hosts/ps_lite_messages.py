"""Messages to a port or unix socket of ps-lite, as a stranger who speaks its protocol, or none, may send them."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from pathlib import Path
from typing import Union

from mxtrain.launch.local import PORTS
from tests.support.processes.sockets import Listener, listeners, unix_paths

TERMINATE, ADD_NODE = 1, 2
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)  # ZMTP 3
Address = Union[Listener, Path]


def address(pid: int) -> Address | None:
    """Where ps-lite of this process listens; None where it does not yet.

    The scheduler's own port, where processes of a job meet, is below those that the system chooses for ps-lite.
    """
    paths = [path for path in unix_paths(pid) if path.name.isdecimal()]
    ports = [each for each in listeners(pid) if each.port not in PORTS]
    return (paths or ports or [None])[0]


def send_terminate(node: Address) -> None:
    """The message that ps-lite sends to itself at its end: control (3) with the command (1) TERMINATE."""
    send(node, _field(3, _field(1, TERMINATE)))


def send_add_node(node: Address) -> None:
    """A process that wants to be one of the job: control (3) with ADD_NODE and a node (2) of role (1), port (5)."""
    newcomer = _field(1, 1) + _field(3, b"127.0.0.1") + _field(4, 9) + _field(5, 0)
    send(node, _field(3, _field(1, ADD_NODE) + _field(2, newcomer)), identity=b"")


def send_bad_protobuf(node: Address) -> None:
    """A frame that is no message of ps-lite."""
    send(node, b"\xff" * 40)


def send_command(node: Address, body: bytes, head: int = 0) -> None:
    """A command to a ps-lite server: head (1), body (2), request (4), simple_app (6), app_id (7), timestamp (8),
    customer_id (10)."""
    meta = _field(1, head) + _field(2, body) + _field(4, 1) + _field(6, 1)
    send(node, meta + _field(7, 0) + _field(8, 0) + _field(10, 0))


def send_random_bytes(node: Address, seed: int, connections: int = 30) -> None:
    """Connections of a dozen random bytes and more, of which each may be an old protocol's first ones."""
    rng = random.Random(seed)
    for _ in range(connections):
        with contextlib.suppress(OSError), _connected(node) as client:
            client.sendall(bytes(rng.randrange(256) for _ in range(rng.randint(12, 300))))


def send(node: Address, meta: bytes, identity: bytes = b"ps9999") -> None:
    """A message to ps-lite by hand: ZeroMQ's greeting (ZMTP 3), then two frames, of which the second is a PBMeta."""
    ready = b"\x05READY" + _property(b"Socket-Type", b"DEALER") + _property(b"Identity", identity)
    with _connected(node) as client, client.makefile("rb") as answers:
        client.sendall(GREETING)
        assert len(answers.read(64)) == 64
        client.sendall(bytes([4, len(ready)]) + ready)
        # ZeroMQ takes bytes that arrive before its own READY is out for another READY, and closes.
        _, length = answers.read(2)
        assert answers.read(length).startswith(b"\x05READY")
        client.sendall(b"\x02" + struct.pack(">Q", len(meta)) + meta)
        time.sleep(1)  # ZeroMQ drops unread bytes when this end closes


def _connected(node: Address) -> socket.socket:
    if isinstance(node, Listener):
        return socket.create_connection(node, timeout=10)
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    client.connect(str(node))
    return client


def _property(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + struct.pack(">I", len(value)) + value


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return _varint(number << 3 | 2) + _varint(len(value)) + value
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + _varint(value >> 7)
