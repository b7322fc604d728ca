"""Connections between the processes of a job, each for one purpose, by the numbers of their unix sockets.

Owns the lines in which one says who it is and, where a connection is there to be watched, how it has ended, and that no
forked child keeps a connection open. A number leads to another host too, by the gateways' sockets (docs/adr/0050). What
travels else is whose connections they are.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
import weakref
from typing import Collection, Dict, Iterator, Tuple

import numpy as np

from mxtrain.cluster import unix_sockets
from mxtrain.data.fields import Array

ACCEPTED = b"+"
MAX_LINE = 32
PEACE = "."
MAX_REASON = 4096  # bytes
RETRY_SECONDS = 0.02
BUFFER_BYTES = 4 << 20  # the kernel gives as much of it as net.core.wmem_max allows

Ends = Dict[Tuple[bytes, int], socket.socket]  # by purpose, and the rank of who has connected
_open: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def _close_inherited() -> None:
    """Close a forked child's copies, which would keep connections open after its parent's death."""
    for connection in list(_open):
        connection.close()


os.register_at_fork(after_in_child=_close_inherited)


@contextlib.contextmanager
def listening(number: int, backlog: int) -> Iterator[socket.socket]:
    """A block in which a socket of this number listens, for this user alone."""
    with unix_sockets.listen(number, backlog) as listener:
        try:
            yield listener
        finally:
            (unix_sockets.FOLDER / str(number)).unlink(missing_ok=True)


def connect(number: int, purpose: bytes, rank: int, deadline: float) -> socket.socket | None:
    """Return a connection of `rank` to who listens at `number`, who may start later; None after the deadline."""
    while time.monotonic() < deadline:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(max(deadline - time.monotonic(), RETRY_SECONDS))
        with contextlib.suppress(OSError):
            connection.connect(str(unix_sockets.FOLDER / str(number)))
            connection.sendall(b"%s %d\n" % (purpose, rank))
            if connection.recv(1) == ACCEPTED:  # a gateway accepts before the process behind it does
                return connection
        connection.close()
        time.sleep(RETRY_SECONDS)
    return None


def accept(listener: socket.socket, wanted: Collection[tuple[bytes, int]], deadline: float) -> Ends:
    """Accept these connections, and others not; return those that have come before the deadline."""
    ends: Ends = {}
    while len(ends) < len(wanted):
        listener.settimeout(max(deadline - time.monotonic(), 1e-3))
        try:
            connection, _ = listener.accept()
        except socket.timeout:
            break
        connection.settimeout(max(deadline - time.monotonic(), 1e-3))
        with contextlib.suppress(OSError, ValueError):
            purpose, _, rank = _read_line(connection).partition(b" ")
            if (purpose, int(rank)) in wanted:
                connection.sendall(ACCEPTED)
                if (purpose, int(rank)) in ends:  # given up there and made again
                    ends[purpose, int(rank)].close()
                ends[purpose, int(rank)] = connection
                continue
        connection.close()
    return ends


def settle(ends: Collection[socket.socket]) -> None:
    """Make connections ready for their use: they wait without limit, and are closed in forked children."""
    for connection in ends:
        _open.add(connection)
        connection.settimeout(None)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)


def send_file(connection: socket.socket, descriptor: int) -> None:
    """Send an open file, beside one byte."""
    content = descriptor.to_bytes(4, sys.byteorder)
    connection.sendmsg([ACCEPTED], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, content)])


def receive_file(connection: socket.socket) -> int | None:
    """Wait for an open file, and return its descriptor; None where the other side has ended."""
    _, ancillary, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
    return int.from_bytes(ancillary[0][2][:4], sys.byteorder) if ancillary else None


def end_for(connection: socket.socket, reason: str = PEACE) -> None:
    """Say that this side ends, in peace or for a `reason`: a third one's death, who is then to be named."""
    with contextlib.suppress(OSError):
        connection.sendall(reason.encode()[: MAX_REASON - 1] + b"\n")
        connection.shutdown(socket.SHUT_WR)


def reason_of_end(connection: socket.socket) -> str:
    """Return what the other side has said, once it has ended: `PEACE`, a reason, or nothing."""
    said = b""
    with contextlib.suppress(OSError):
        while not said.endswith(b"\n") and len(said) < MAX_REASON:
            part = connection.recv(MAX_REASON)
            if not part:
                return ""
            said += part
    return said.decode(errors="replace").strip()


def _read_line(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n") and len(line) < MAX_LINE:
        byte = connection.recv(1)
        if not byte:
            raise ConnectionError
        line += byte
    return line.strip()


def octets(numbers: Array) -> memoryview:
    """Return the memory of a flat array, which may be empty."""
    return numbers.view(np.uint8).data
