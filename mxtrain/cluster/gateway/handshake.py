"""Opening a connection to a gateway, and accepting one: both ends prove that they have the secret, and name a target.

TLS carries one line each way: the target and the keys of the connection, and the answer. From there on the connection
is encrypted with these keys (`frames.py`). Owns that exchange; does not own what is forwarded.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from typing import Callable, Iterator, NamedTuple

from mxtrain.cluster.gateway.credentials import Credentials
from mxtrain.cluster.gateway.frames import FrameCipher, new_key

CONTROL = "control"  # the target of control channels; others are numbers of unix sockets
HANDSHAKE_SECONDS = 5.0
LINE_BYTES = 1024
ACCEPTED = "accepted"


class HandshakeFailed(Exception):
    """The other end does not have the job's secret, or does not accept the target."""


class SecureConnection(NamedTuple):
    """An encrypted connection to a target behind a gateway."""

    socket: socket.socket
    cipher: FrameCipher
    target: str


def connect(
    address: str, port: int, credentials: Credentials, target: str, attempt: int, seconds: float
) -> SecureConnection:
    """Return a connection to `target` behind the gateway at this address, of the job's `attempt`.

    Raises OSError where nobody answers within `seconds`, and HandshakeFailed where the other end is not of the job or
    does not accept the target.
    """
    connection = socket.create_connection((address, port), timeout=seconds)
    try:
        if connection.getsockname() == connection.getpeername():
            # Repeated attempts at a port of the ephemeral range can connect a socket to itself.
            raise ConnectionRefusedError("nobody listens")
        connection.settimeout(seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with _handshake(), credentials.client.wrap_socket(connection) as tls:
            outgoing, incoming = new_key(), new_key()
            request = {"target": target, "attempt": attempt, "keys": [outgoing.hex(), incoming.hex()]}
            tls.sendall(json.dumps(request).encode() + b"\n")
            answer = _read_line(tls).decode(errors="replace")
            if answer != ACCEPTED:
                raise HandshakeFailed(answer)
            return SecureConnection(_without_tls(tls), FrameCipher(outgoing, incoming), target)
    finally:
        connection.close()  # TLS has taken it over


def accept(
    connection: socket.socket, credentials: Credentials, attempt: int, is_target: Callable[[str], bool]
) -> SecureConnection:
    """Return the connection that the other end of `connection` opens, which is closed where it cannot.

    `is_target` tells whether a target is behind this gateway. Raises HandshakeFailed, or OSError after
    HANDSHAKE_SECONDS without a word.
    """
    connection.settimeout(HANDSHAKE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        with _handshake(), credentials.server.wrap_socket(connection, server_side=True) as tls:
            request = json.loads(_read_line(tls))
            target, (incoming, outgoing) = request["target"], map(bytes.fromhex, request["keys"])
            problem = "" if is_target(target) else f"no {target} is behind this gateway"
            if request["attempt"] != attempt:
                problem = f"this is attempt {attempt} of the job, not attempt {request['attempt']}"
            tls.sendall((problem or ACCEPTED).encode() + b"\n")
            if problem:
                raise HandshakeFailed(problem)
            return SecureConnection(_without_tls(tls), FrameCipher(outgoing, incoming), target)
    finally:
        connection.close()


@contextlib.contextmanager
def _handshake() -> Iterator[None]:
    """A block in which what TLS or the lines' readers find wrong is HandshakeFailed; OSErrors of the network stay."""
    try:
        yield
    except (ssl.SSLError, LookupError, TypeError, ValueError, EOFError) as error:
        raise HandshakeFailed(getattr(error, "reason", None) or str(error)) from None


def _read_line(tls: ssl.SSLSocket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        block = tls.recv(LINE_BYTES - len(line)) if len(line) < LINE_BYTES else b""
        if not block:
            raise EOFError("no whole line came")
        line += block
    return line[:-1]


def _without_tls(tls: ssl.SSLSocket) -> socket.socket:
    """Return the connection under TLS, which waits. OpenSSL reads no byte beyond the record that it needs."""
    connection = socket.socket(fileno=tls.detach())
    connection.setblocking(True)  # for TLS it had a limit in time, which the system knows as not to wait
    return connection
