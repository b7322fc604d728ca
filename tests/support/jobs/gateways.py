"""Gateways on this machine, a program behind one, and a network on which somebody listens."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from typing import Iterator

from mxtrain.cluster import unix_sockets
from mxtrain.cluster.gateway import credentials, start
from mxtrain.cluster.gateway.credentials import Credentials
from mxtrain.cluster.gateway.handshake import HandshakeFailed, SecureConnection, accept
from mxtrain.cluster.gateway.process import Routes
from mxtrain.cluster.gateway.routes import NUMBERS

SECRET = "one of sixteen letters or more"
LOOPBACK = "127.0.0.1"
DEADLINE_SECONDS = 10


class Behind:
    """A unix socket by the name that ps-lite would have, whose connections are kept for a test."""

    def __init__(self) -> None:
        self.number = random.SystemRandom().choice(NUMBERS)
        self.path = unix_sockets.FOLDER / str(self.number)
        self.connections: list[socket.socket] = []
        self._listener = unix_sockets.listen(self.number, 64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self.connections.append(self._listener.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        self._listener.close()
        self.path.unlink()


@contextlib.contextmanager
def behind() -> Iterator[Behind]:
    """A block with a program that listens."""
    made = Behind()
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def gateway(
    here: list[int],
    elsewhere: list[tuple[int, str, int]] | None = None,
    secret: str = SECRET,
    attempt: int = 0,
) -> Iterator[tuple[start.GatewayProcess, int]]:
    """A block with a gateway that knows its routes, and its port."""
    listener = start.open_port(LOOPBACK, 0)
    port = int(listener.getsockname()[1])
    process = start.gateway(listener, secret, attempt, 10.0)
    # A gateway opens the sockets of processes elsewhere once it accepts connections to those here.
    last = (random.SystemRandom().choice(NUMBERS), LOOPBACK, port)
    try:
        process.set_routes(Routes(here, [*(elsewhere or []), last]))
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (unix_sockets.FOLDER / str(last[0])).exists():
            assert not process.end() and time.monotonic() < deadline
            time.sleep(0.005)
        yield process, port
    finally:
        process.close()


@contextlib.contextmanager
def gateway_without_checks(
    trusted: Credentials | None = None,
) -> Iterator[tuple[list[SecureConnection], int]]:
    """A block with a gateway of this process that accepts any target: its connections, and its port."""
    connections: list[SecureConnection] = []
    own = trusted or credentials.of_secret(SECRET)

    def accept_all() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with contextlib.suppress(HandshakeFailed, OSError):
                connections.append(accept(connection, own, 0, lambda target: True))

    with socket.create_server((LOOPBACK, 0)) as listener:
        threading.Thread(target=accept_all, daemon=True).start()
        yield connections, int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


def relay(port: int, seen: list[bytes], direction: str = "both") -> int:
    """Return a port at which all goes on to `port`, and is written down, as on a network that somebody hears."""
    listener = socket.create_server((LOOPBACK, 0))

    def pass_on(source: socket.socket, target: socket.socket, word: str) -> None:
        with contextlib.suppress(OSError):
            while block := source.recv(1 << 16):
                if direction in (word, "both"):
                    seen.append(block)
                target.sendall(block)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        while True:
            near, _ = listener.accept()
            far = socket.create_connection((LOOPBACK, port))
            for ends in ((near, far, "there"), (far, near, "back")):
                threading.Thread(target=pass_on, args=ends, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return int(listener.getsockname()[1])
