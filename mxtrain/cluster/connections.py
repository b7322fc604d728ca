"""Connections to the scheduler: unauthenticated at first, members once their NodeInfo is accepted.

Owns the sockets and the list of the connected, and never waits for any one of them. Does not own the meaning of their
messages (`coordinator.py`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import selectors
import socket
import time
from typing import Any, Sequence

from mxtrain.cluster import ports, verdicts
from mxtrain.cluster.admission.rendezvous import NodeInfo
from mxtrain.cluster.channel import MAX_RAW_BYTES, Channel, Closed, Malformed, Message
from mxtrain.cluster.environment import NodeSpec
from mxtrain.cluster.gateway.start import AuthenticatedListener, GatewayProcess, schedulers_gateway

GATEWAY_SECONDS = 0.2  # in which the end of a gateway is seen after that of its connections
UNAUTHENTICATED_SECONDS = 5.0  # closed if it has not joined by then
MAX_UNAUTHENTICATED = MAX_LATE = 64


@dataclasses.dataclass(eq=False)
class Connection:
    """A connection, and what is known of the process at its other end."""

    channel: Channel
    last_heard: float  # if unauthenticated: when it was accepted
    info: NodeInfo | None = None  # None while it is unauthenticated
    is_late: bool = False  # waits for the next attempt, and has no part in this one
    is_refused: bool = False
    rank: int = -1
    phase: str = ""
    step: int = -1
    idle_seconds: float = 0.0
    ps_lite: str = ""  # its stage: see ps_lite.Threads
    has_finished: bool = False

    def __str__(self) -> str:
        return "an unauthenticated connection" if self.info is None else str(self.info)

    @property
    def last_progress(self) -> str:
        """The end of a sentence: the progress that it reported last."""
        return verdicts.describe_progress(self.phase, self.step)


class Connections:
    """All connections, and what listens for them: the port, or the gateway that has it."""

    def __init__(
        self, listener: socket.socket | AuthenticatedListener, gateway: GatewayProcess | None = None
    ):
        self._all: list[Connection] = []
        self.gateway = gateway
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, None)

    @property
    def members(self) -> list[Connection]:
        """Those that take part in this attempt."""
        return [each for each in self.authenticated if not each.is_late]

    @property
    def authenticated(self) -> list[Connection]:
        """Members, and processes of this job that came too late."""
        return [each for each in self._all if each.info is not None]

    @property
    def unauthenticated(self) -> list[Connection]:
        return [each for each in self._all if each.info is None]

    def end_of_gateway(self) -> str:
        """Return a sentence on how the gateway has ended, which takes all connections with it; empty while it runs."""
        return "" if self.gateway is None else self.gateway.end(GATEWAY_SECONDS)

    def is_open(self, connection: Connection) -> bool:
        return connection in self._all

    def admit(self, connection: Connection, info: NodeInfo) -> None:
        """Make it a member."""
        connection.info, connection.last_heard = info, time.monotonic()
        connection.channel.max_raw_bytes = MAX_RAW_BYTES

    def admit_late(self, connection: Connection, info: NodeInfo) -> None:
        """Let it wait for the next attempt; of too many that wait, the oldest is dropped."""
        late = [each for each in self.authenticated if each.is_late]
        if len(late) >= MAX_LATE:
            self.drop(late[0])
        connection.info, connection.last_heard, connection.is_late = info, time.monotonic(), True

    def receive(self, seconds: float) -> list[tuple[Connection, list[Message], str]]:
        """Wait up to `seconds`; return connections with their messages, and with why one is lost, if it is."""
        received = []
        for key, events in self._selector.select(seconds):
            if key.data is None:
                self._accept()
            elif self.is_open(key.data):
                received.append((key.data, *self._read(key.data, events)))
        return received

    def send(self, connections: Sequence[Connection], message: dict[str, Any], raw: bytes = b"") -> None:
        """Queue a message for each; `receive` reports those that are gone."""
        for connection in connections:
            with contextlib.suppress(Closed):
                connection.channel.send(message, raw)
            self._select_writable(connection)

    def drop(self, connection: Connection) -> None:
        """Close it, if it is still open."""
        if self.is_open(connection):
            self._all.remove(connection)
            self._selector.unregister(connection.channel)
            connection.channel.close()

    def close_port(self) -> None:
        """Accept no further connection."""
        self._selector.unregister(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except OSError:  # it is gone already, or this process has no file descriptor left
            for oldest in self.unauthenticated[:1]:
                self.drop(oldest)
            return
        if len(self.unauthenticated) >= MAX_UNAUTHENTICATED:
            self.drop(self.unauthenticated[0])
        connection = Connection(Channel(accepted), time.monotonic())
        self._all.append(connection)
        self._selector.register(connection.channel, selectors.EVENT_READ, connection)

    def _read(self, connection: Connection, events: int) -> tuple[list[Message], str]:
        try:
            if events & selectors.EVENT_WRITE:
                connection.channel.flush()
                self._select_writable(connection)
            if events & selectors.EVENT_READ:
                messages = connection.channel.receive()
                if connection.info is not None:
                    connection.last_heard = time.monotonic()
                return messages, ""
        except Closed:
            return [], "died"
        except Malformed as problem:
            return [], f"sent what nobody understands ({problem})"
        return [], ""

    def _select_writable(self, connection: Connection) -> None:
        """Also wake up when the network takes more, as long as something is unsent."""
        has_unsent = connection.channel.has_unsent
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if has_unsent else 0)
        if self._selector.get_key(connection.channel).events != events:
            self._selector.modify(connection.channel, events, connection)


def opened(node: NodeSpec, seconds: float) -> Connections:
    """Return the connections to the scheduler `node`, whose port is open from here on: its gateway's, if it has one.

    A restarted job's port may be taken for so many `seconds`.
    """
    port = ports.listen(node, seconds)
    if not node.secret:
        return Connections(port)
    gateway, listener = schedulers_gateway(port, node.secret, node.attempt, seconds)
    return Connections(listener, gateway)
