"""A gateway's process: `python -m mxtrain.cluster.gateway.process`, started by a process of the job (`start.py`).

It accepts connections at the gateway's port, and listens at the unix sockets by whose numbers ps-lite knows the
processes elsewhere. Each stream is carried by threads of its own, so none holds up another. Standard input holds lines
of JSON: first `GatewayOptions`, then `Routes` once all processes are known; where that input ends, the parent has,
and this ends too.
"""

from __future__ import annotations

import array
import contextlib
import dataclasses
import json
import os
import socket
import sys
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Callable, Sequence, TypeVar

from mxtrain.cluster import unix_sockets, verdicts
from mxtrain.cluster.gateway import credentials, handshake
from mxtrain.cluster.gateway.forwarding import forward
from mxtrain.cluster.gateway.handshake import CONTROL, HandshakeFailed
from mxtrain.core.die_with_parent import die_with_parent

MAX_UNAUTHENTICATED = 128  # connections; of more, the oldest is closed
RETRY_SECONDS = 0.05
CONNECT_SECONDS = 5.0
BACKLOG = 64

Connected = TypeVar("Connected")


@dataclasses.dataclass(frozen=True)
class GatewayOptions:
    """A gateway's knowledge from its start; open files are its parent's, which it inherits by number."""

    secret: str
    attempt: int
    listener: int  # of the gateway's port
    control: int = -1  # through which control channels are handed to the scheduler; -1 on other hosts
    seconds: float = 60.0  # in which a process may be late to open its socket


@dataclasses.dataclass(frozen=True)
class Routes:
    """Numbers of ps-lite's unix sockets: of the processes here, and of those elsewhere with their gateway."""

    here: Sequence[int]
    elsewhere: Sequence[tuple[int, str, int]]  # number, and address and port of its host's gateway


class Gateway:
    """The work of a gateway. Threads share the set of targets and the connections without a handshake."""

    def __init__(self, options: GatewayOptions):
        self._options, self._credentials = options, credentials.of_secret(options.secret)
        self._targets = frozenset([CONTROL] if options.control >= 0 else [])
        self._unauthenticated: OrderedDict[socket.socket, None] = OrderedDict()
        self._lock = threading.Lock()

    def accept_all(self) -> None:
        """Accept connections at the gateway's port for as long as this process lives."""
        listener = socket.socket(fileno=self._options.listener)
        listener.setblocking(True)
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # gone already, or no file descriptor is left
                self._close_oldest()
                time.sleep(RETRY_SECONDS)
                continue
            if len(self._unauthenticated) >= MAX_UNAUTHENTICATED:
                self._close_oldest()
            with self._lock:
                self._unauthenticated[connection] = None
            _start(self._accept, connection)

    def set_routes(self, routes: Routes) -> None:
        """Accept connections to the processes here, and listen in the place of each process elsewhere."""
        self._targets |= frozenset(map(str, routes.here))
        for number, address, port in routes.elsewhere:
            listener = unix_sockets.listen(number, BACKLOG)
            _start(self._forward_all, listener, str(number), address, port)

    def _accept(self, connection: socket.socket) -> None:
        options = self._options
        try:
            remote = handshake.accept(
                connection, self._credentials, options.attempt, self._targets.__contains__
            )
        except (HandshakeFailed, OSError):
            return  # who belongs to the job reports it at the other end
        finally:
            with self._lock:
                self._unauthenticated.pop(connection, None)
        local = self._to_scheduler() if remote.target == CONTROL else self._to_ps_lite(remote.target)
        if local is None:
            remote.socket.close()
        else:
            forward(remote, local)

    def _to_scheduler(self) -> socket.socket:
        """Return one end of a pair of sockets, of which the scheduler gets the other: no path or port leads to it."""
        own, schedulers = socket.socketpair()
        with socket.socket(fileno=os.dup(self._options.control)) as control, schedulers:
            file = array.array("i", [schedulers.fileno()])
            control.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, file)])
        return own

    def _to_ps_lite(self, target: str) -> socket.socket | None:
        """Return a connection to a process here, which may not have opened its socket yet; None if it never does."""

        def connect() -> socket.socket:
            local = socket.socket(socket.AF_UNIX)
            try:
                local.connect(str(unix_sockets.FOLDER / target))
            except OSError:
                local.close()
                raise
            return local

        return self._in_time(connect)

    def _forward_all(self, listener: socket.socket, target: str, address: str, port: int) -> None:
        while True:
            local, _ = listener.accept()
            _start(self._forward, local, target, address, port)

    def _forward(self, local: socket.socket, target: str, address: str, port: int) -> None:
        options = self._options
        remote = self._in_time(
            lambda: handshake.connect(
                address, port, self._credentials, target, options.attempt, CONNECT_SECONDS
            )
        )
        if remote is None:
            local.close()
        else:
            forward(remote, local)

    def _in_time(self, connect: Callable[[], Connected]) -> Connected | None:
        """Return what `connect` returns, once it does; None if the other end is not there in time."""
        deadline = time.monotonic() + self._options.seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(HandshakeFailed, OSError):
                return connect()
            time.sleep(RETRY_SECONDS)
        return None

    def _close_oldest(self) -> None:
        with self._lock, contextlib.suppress(KeyError, OSError):
            oldest, _ = self._unauthenticated.popitem(last=False)
            oldest.shutdown(socket.SHUT_RDWR)


def _start(function: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=function, args=arguments, daemon=True).start()


def main() -> None:
    """Run a gateway until standard input ends, and delete the sockets that it listened at for processes elsewhere."""
    die_with_parent()
    verdicts.write_stacks_at_signal()
    lines = iter(sys.stdin.buffer.readline, b"")
    gateway = Gateway(GatewayOptions(**json.loads(next(lines))))
    _start(gateway.accept_all)
    sockets: list[Path] = []
    try:
        for line in lines:
            routes = Routes(**json.loads(line))
            sockets += [unix_sockets.FOLDER / str(number) for number, _, _ in routes.elsewhere]
            gateway.set_routes(routes)
    finally:
        for path in sockets:
            path.unlink(missing_ok=True)
        os._exit(0)  # threads wait for a network that nobody needs any more


if __name__ == "__main__":
    main()
