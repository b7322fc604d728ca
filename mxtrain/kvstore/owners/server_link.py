"""A worker's connections to the servers that own weights, until one of them ends.

Owns a thread for each server, which makes requests in their order, and one that watches all servers: as soon as one is
gone, whoever waits for any of them raises a RestartMe with its name.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Callable, Sequence, TypeVar

from mxtrain.core.errors import RestartMe
from mxtrain.data.fields import Array
from mxtrain.kvstore import connections
from mxtrain.kvstore.owners import messages
from mxtrain.kvstore.owners.messages import PUSHES, REQUESTS, WATCH, Head

Result = TypeVar("Result")
CLOSE_SECONDS = 2.0


class Links:
    """The connections of worker `rank` to all servers."""

    def __init__(self, rank: int, num_servers: int, ends: connections.Ends):
        self._rank, self._ends = rank, ends
        self._watched = {server: ends[WATCH, server] for server in range(num_servers)}
        self._failure: RestartMe | None = None
        self._is_closed = False
        self.servers = [ServerLink(self, server, ends) for server in range(num_servers)]
        self._watch = threading.Thread(target=self._run, name="servers", daemon=True)
        self._watch.start()

    def failure(self, server: int) -> RestartMe:
        """Return why a connection to a server has ended, once that is known."""
        self._watch.join(CLOSE_SECONDS)
        return self._failure or self._gone(server)

    def close(self) -> None:
        """End all connections: in peace, if no server is gone, and after what has been requested."""
        if self._is_closed:
            return
        self._is_closed = True
        deadline = time.monotonic() + CLOSE_SECONDS
        for server in self.servers:
            server.finish()
        for server in self.servers:
            server.join(deadline)
        if self._failure is None:
            for end in self._watched.values():
                connections.end_for(end)
        self._shut_down()
        self._watch.join(CLOSE_SECONDS)
        for end in self._ends.values():
            end.close()

    def _run(self) -> None:
        poller, servers = select.poll(), {end.fileno(): server for server, end in self._watched.items()}
        for descriptor in servers:
            poller.register(descriptor, select.POLLIN)
        (descriptor, _), *_ = poller.poll()
        if self._is_closed:
            return
        server = servers[descriptor]
        said = connections.reason_of_end(self._watched[server])
        self._failure = RestartMe(said) if said not in ("", connections.PEACE) else self._gone(server)
        for end in self._watched.values():
            connections.end_for(end, str(self._failure))
        self._shut_down()

    def _shut_down(self) -> None:
        """Wake all threads that use a connection."""
        for end in self._ends.values():
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _gone(self, server: int) -> RestartMe:
        return RestartMe(
            f"server-{server}: its connection to worker-{self._rank} has ended, and with it the weights it owns"
        )


class ServerLink:
    """A worker's connections to one server."""

    def __init__(self, links: Links, index: int, ends: connections.Ends):
        self._links, self._index = links, index
        self._pushes, self._requests = ends[PUSHES, index], ends[REQUESTS, index]
        self._pushing = threading.Lock()
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._requester = threading.Thread(target=self._run, name=f"server-{index}", daemon=True)
        self._requester.start()

    def push(self, head: Head, parts: Sequence[Array]) -> None:
        """Send a message that has no answer, and return once it has been sent."""
        with self._pushing:
            try:
                messages.send(self._pushes, head, parts)
            except OSError:
                raise self._links.failure(self._index) from None

    def request(
        self, head: Head, parts: Sequence[Array | bytes], answer: Callable[[socket.socket], Result]
    ) -> Future[Result]:
        """Start a request; the result is what `answer` makes of the connection, on which the answer comes."""
        future: Future[Result] = Future()

        def exchange() -> None:
            try:
                messages.send(self._requests, head, parts)
                future.set_result(answer(self._requests))
            except (EOFError, OSError):
                future.set_exception(self._links.failure(self._index))
            except Exception as error:
                future.set_exception(error)

        self._waiting.put(exchange)
        return future

    def finish(self) -> None:
        """Make what has been requested, and nothing after it."""
        self._waiting.put(None)

    def join(self, deadline: float) -> None:
        """Wait until that is done, or until the deadline."""
        self._requester.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        for exchange in iter(self._waiting.get, None):
            exchange()
            del exchange  # or its arrays would stay until the next one
