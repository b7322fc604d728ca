"""Starting a host's gateway from a process of the job: its port, its process, and its end.

Owns the port until it is known which process of a host starts the gateway, and the gateway's process after that.
"""

from __future__ import annotations

import array
import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Sequence

from mxtrain.cluster.gateway.process import GatewayOptions, Routes
from mxtrain.core.die_with_parent import SUPERVISOR_PID

if TYPE_CHECKING:
    from mxtrain.cluster.environment import NodeSpec

BACKLOG = 512


class GatewayProcess:
    """A gateway's process, which ends with the thread that made it."""

    def __init__(self, options: GatewayOptions, open_files: Sequence[int]):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mxtrain.cluster.gateway.process"],
            stdin=subprocess.PIPE,
            pass_fds=open_files,
            env={**os.environ, SUPERVISOR_PID: str(os.getpid())},
            start_new_session=True,  # Ctrl-C on a terminal is for those who save first
        )
        self._write(dataclasses.asdict(options))

    @property
    def pid(self) -> int:
        return self._process.pid

    def set_routes(self, routes: Routes) -> None:
        """Let it carry streams between the processes here and those elsewhere."""
        self._write(dataclasses.asdict(routes))

    def end(self, seconds: float = 0.0) -> str:
        """Return a sentence on how it ended, within so many seconds; empty while it runs."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return ""
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        return f"the gateway of its host, process {self.pid}, {how}"

    def close(self) -> None:
        """End it, with the streams that it carries."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _write(self, content: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # whoever looks for its end says so
            self._process.stdin.write(json.dumps(content).encode() + b"\n")
            self._process.stdin.flush()


class AuthenticatedListener:
    """The scheduler's source of control channels, which come from its host's gateway after their handshake."""

    def __init__(self) -> None:
        self._own, self.gateways = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._own.setblocking(False)

    def fileno(self) -> int:
        return self._own.fileno()

    def accept(self) -> tuple[socket.socket, None]:
        """Return the next connection; OSError where there is none, or the gateway has ended."""
        files = array.array("i")
        message, ancillary, _, _ = self._own.recvmsg(1, socket.CMSG_SPACE(files.itemsize))
        for _, _, data in ancillary:
            files.frombytes(data[: files.itemsize])
        if not message or not files:
            raise OSError("no connection came")
        return socket.socket(fileno=files[0]), None

    def close(self) -> None:
        self._own.close()


def open_port(address: str, preferred_port: int) -> socket.socket:
    """Return a socket that listens at the preferred port of this address, or at another where that one is taken."""
    for port in (preferred_port, 0):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, port))
            listener.listen(BACKLOG)
            return listener
        except OSError:
            listener.close()
            if not port:
                raise
    raise AssertionError("port 0 is free, or the loop has raised")


class HostGateway:
    """A process's part in its host's gateway: a port for it, and the gateway itself if the assignment says so.

    The scheduler's is there from its start, as `process`.
    """

    def __init__(self, node: NodeSpec, seconds: float, process: GatewayProcess | None = None):
        self._node, self._seconds, self._process = node, seconds, process
        self._port: socket.socket | None = None
        self.address: tuple[str, int] = (node.root, node.port)
        if process is None:
            # On the scheduler's host the same port is the scheduler's, which may come later.
            preferred = 0 if node.node_host == node.root else node.port
            self._port = open_port(node.node_host, preferred)
            self.address = self._port.getsockname()

    def settle(self, here: Sequence[int], elsewhere: Sequence[tuple[int, str, int]]) -> None:
        """Start the gateway with these routes (`process.Routes`); without any here, give the port up."""
        if self._port is not None and here:
            self._process = gateway(self._port, self._node.secret, self._node.attempt, self._seconds)
        elif self._port is not None:
            self._port.close()
        if self._process is not None:
            self._process.set_routes(Routes(here, elsewhere))

    def end(self, seconds: float = 0.0) -> str:
        """Return a sentence on how the gateway that this process started has ended, within so many seconds.

        Empty while it runs, or where another process has started it.
        """
        return "" if self._process is None else self._process.end(seconds)


def gateway(listener: socket.socket, secret: str, attempt: int, seconds: float) -> GatewayProcess:
    """Return the gateway of a host without the scheduler, at the port of `listener`, which is closed here.

    `seconds` are those in which a process may be late to open its socket.
    """
    with contextlib.closing(listener):
        options = GatewayOptions(secret, attempt, listener.fileno(), seconds=seconds)
        return GatewayProcess(options, [listener.fileno()])


def schedulers_gateway(
    listener: socket.socket, secret: str, attempt: int, seconds: float
) -> tuple[GatewayProcess, AuthenticatedListener]:
    """Return the gateway of the scheduler's host, as `gateway` does, and what accepts control channels there."""
    accepting = AuthenticatedListener()
    with contextlib.closing(listener), contextlib.closing(accepting.gateways) as control:
        options = GatewayOptions(secret, attempt, listener.fileno(), control.fileno(), seconds)
        return GatewayProcess(options, [listener.fileno(), control.fileno()]), accepting
