"""Carrying the bytes of a stream between a unix socket on this host and an encrypted connection to another one.

Each direction is a thread that waits for the network most of the time. Owns the end of a stream: where one side closes
or breaks, both are closed.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Callable

from mxtrain.cluster.channel import Malformed
from mxtrain.cluster.gateway.frames import FRAME_BYTES, HEADER, TAG_BYTES, encrypted_size
from mxtrain.cluster.gateway.handshake import SecureConnection

Direction = Callable[[SecureConnection, socket.socket], None]


def forward(remote: SecureConnection, local: socket.socket) -> None:
    """Carry both directions between a connection and a local socket until either ends; closes both."""
    outgoing = threading.Thread(target=_carry, args=(_encrypt_all, remote, local), daemon=True)
    outgoing.start()
    _carry(_decrypt_all, remote, local)
    outgoing.join()
    remote.socket.close()
    local.close()


def _carry(direction: Direction, remote: SecureConnection, local: socket.socket) -> None:
    """Carry one direction, and then shut both down: a process that has ended neither sends nor reads."""
    with contextlib.suppress(OSError, EOFError, Malformed):
        direction(remote, local)
    for end in (remote.socket, local):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _encrypt_all(remote: SecureConnection, local: socket.socket) -> None:
    block = memoryview(bytearray(FRAME_BYTES))
    while size := local.recv_into(block):
        header, encrypted = remote.cipher.encrypt_frame(block[:size])
        _send_all(remote.socket, header, encrypted)


def _decrypt_all(remote: SecureConnection, local: socket.socket) -> None:
    block = memoryview(bytearray(FRAME_BYTES + TAG_BYTES))
    header = memoryview(bytearray(HEADER.size))
    while True:
        _receive_all(remote.socket, header)
        encrypted = block[: encrypted_size(header)]
        _receive_all(remote.socket, encrypted)
        local.sendall(remote.cipher.decrypt_frame(encrypted))


def _send_all(connection: socket.socket, header: bytes, encrypted: bytes) -> None:
    """Send a frame, by one call of the system where the network takes it at once."""
    num_sent = connection.sendmsg([header, encrypted]) - len(header)
    if num_sent < 0:
        connection.sendall(header[num_sent:])
    connection.sendall(memoryview(encrypted)[max(num_sent, 0) :])


def _receive_all(connection: socket.socket, block: memoryview) -> None:
    while block:
        size = connection.recv_into(block)
        if not size:
            raise EOFError
        block = block[size:]
