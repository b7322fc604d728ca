"""The connections at the scheduler's port: strangers, and members as soon as they have shown a card.

Owns the sockets and who is connected, and never waits for any one of them. What they say is `watch`'s business.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import selectors
import socket
import time
from typing import Any, Sequence

from mxtrain.cluster import verdicts
from mxtrain.cluster.channel import MAX_RAW_BYTES, Channel, Closed, Malformed, Message
from mxtrain.cluster.environment import NodeSpec
from mxtrain.cluster.rendezvous import NodeInfo
from mxtrain.core.errors import RestartMe, UsageError

STRANGER_SECONDS = 5.0  # who has not shown a card by then is shown out
MAX_STRANGERS = MAX_LATECOMERS = 64


@dataclasses.dataclass(eq=False)
class Connection:
    """A connection, and what is known of the process at its other end."""

    line: Channel
    heard: float  # when; a stranger's time runs from the moment it came
    card: NodeInfo | None = None
    late: bool = False  # waits for the next life, and has no part in this one
    refused: bool = False
    rank: int = -1
    phase: str = ""
    step: int = -1
    idle_seconds: float = 0.0
    finished: bool = False

    def __str__(self) -> str:
        return "a stranger" if self.card is None else str(self.card)

    @property
    def where(self) -> str:
        """The end of a sentence: what it was last heard to be at."""
        return verdicts.place(self.phase, self.step)


class Connections:
    """All of them, and the port."""

    def __init__(self, cluster: NodeSpec):
        self._all: list[Connection] = []
        self._listener = _listen(cluster)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, None)

    @property
    def members(self) -> list[Connection]:
        return [guest for guest in self.known if not guest.late]

    @property
    def known(self) -> list[Connection]:
        """Members, and those who came too late to be."""
        return [guest for guest in self._all if guest.card is not None]

    @property
    def strangers(self) -> list[Connection]:
        return [guest for guest in self._all if guest.card is None]

    def here(self, guest: Connection) -> bool:
        return guest in self._all

    def accept(self, guest: Connection, card: NodeInfo) -> None:
        """From here on it is a member."""
        guest.card, guest.heard, guest.line.max_raw_bytes = card, time.monotonic(), MAX_RAW_BYTES

    def keep_waiting(self, guest: Connection, card: NodeInfo) -> None:
        """It came too late to be a member; from here on it is known."""
        latecomers = [other for other in self.known if other.late]
        if len(latecomers) >= MAX_LATECOMERS:
            self.drop(latecomers[0])
        guest.card, guest.heard, guest.late = card, time.monotonic(), True

    def hear(self, seconds: float) -> list[tuple[Connection, list[Message], str]]:
        """Who said what in at most so many seconds; not the empty string: and how it was lost."""
        found = []
        for key, events in self._selector.select(seconds):
            if key.data is None:
                self._welcome()
            elif self.here(key.data):
                found.append((key.data, *self._read(key.data, events)))
        return found

    def tell(self, guests: Sequence[Connection], message: dict[str, Any], raw: bytes = b"") -> None:
        """Queue a message for each; who has gone is noticed by `hear`."""
        for guest in guests:
            with contextlib.suppress(Closed):
                guest.line.send(message, raw)
            self._expect(guest)

    def drop(self, guest: Connection) -> None:
        if self.here(guest):
            self._all.remove(guest)
            self._selector.unregister(guest.line)
            guest.line.close()

    def close_port(self) -> None:
        self._selector.unregister(self._listener)
        self._listener.close()

    def _welcome(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # it went away again, or this process has no handle left
            for stranger in self.strangers[:1]:
                self.drop(stranger)
            return
        if len(self.strangers) >= MAX_STRANGERS:
            self.drop(self.strangers[0])
        guest = Connection(Channel(connection), time.monotonic())
        self._all.append(guest)
        self._selector.register(guest.line, selectors.EVENT_READ, guest)

    def _read(self, guest: Connection, events: int) -> tuple[list[Message], str]:
        try:
            if events & selectors.EVENT_WRITE:
                guest.line.flush()
                self._expect(guest)
            if events & selectors.EVENT_READ:
                messages = guest.line.receive()
                if guest.card is not None:
                    guest.heard = time.monotonic()
                return messages, ""
        except Closed:
            return [], "died"
        except Malformed as problem:
            return [], f"sent what nobody understands ({problem})"
        return [], ""

    def _expect(self, guest: Connection) -> None:
        """Be told when the network takes more, as long as there is more."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if guest.line.unsent else 0)
        if self._selector.get_key(guest.line).events != events:
            self._selector.modify(guest.line, events, guest)


def hold_port(address: str) -> socket.socket:
    """A free port for ps-lite, kept from others until it listens there.

    Two sockets may be bound to one port where both allow it and only the later one listens; ZeroMQ's do allow it.
    """
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((address, 0))
    return holder


def _listen(cluster: NodeSpec) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((cluster.root, cluster.port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        cure = {
            errno.EADDRINUSE: f"another program has this port; give another as {cluster.given_as.port}",
            errno.EADDRNOTAVAIL: f"no address of this host; start the scheduler where {cluster.given_as.address} is",
            errno.EACCES: f"ports below 1024 are root's; give a higher one as {cluster.given_as.port}",
        }
        stop = RestartMe if cluster.is_restart else UsageError
        raise stop(
            f"scheduler: {cluster.root}:{cluster.port}: {cure.get(error.errno or 0, error.strerror)}"
        ) from None
    listener.setblocking(False)
    return listener
