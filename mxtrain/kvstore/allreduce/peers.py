"""Connections between the workers of a job: two from each to each, by the numbers of their unix sockets.

One carries data, the other nothing: it is there to end, so that whoever waits learns of any worker's death at once,
whatever is still unread. A worker that ends in peace says so there before. A number leads to another host too, by the
gateways' sockets (docs/adr/0050).
"""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import time
from typing import Dict, Iterable, Sequence

from mxtrain.core.errors import RestartMe
from mxtrain.data.fields import Array
from mxtrain.kvstore import connections
from mxtrain.kvstore.connections import octets

DATA, WATCH = b"data", b"watch"
PURPOSES = (DATA, WATCH)
ENDED, SIGNAL = b".", b"!"

Connections = Dict[int, socket.socket]  # by rank


class Peers:
    """The other workers, connected; one thread receives, and others may send."""

    def __init__(self, rank: int, data: Connections, watch: Connections):
        self.rank, self.data, self._watch = rank, data, watch
        self._ranks = {connection.fileno(): other for other, connection in watch.items()}
        self._all = _poll(watch.values())
        self._pollers = {other: _poll([connection, *watch.values()]) for other, connection in data.items()}

    def send_signal(self, ranks: Sequence[int]) -> None:
        """Send one byte to each of these workers."""
        for other in ranks:
            with contextlib.suppress(OSError):  # its watched connection tells
                self.data[other].sendall(SIGNAL)

    def receive_signal(self, ranks: Sequence[int]) -> None:
        """Wait for one byte of each of these workers."""
        byte = memoryview(bytearray(1))
        for other in ranks:
            self._receive(other, byte)

    def receive(self, rank: int, numbers: Array) -> None:
        """Fill `numbers` with what a worker has sent; RestartMe as soon as any worker is gone."""
        self._receive(rank, octets(numbers))

    def receive_file(self, rank: int) -> int:
        """Wait for the descriptor of an open file, and return it."""
        self._wait(rank)
        descriptor = connections.receive_file(self.data[rank])
        if descriptor is None:
            raise self._gone(rank)
        return descriptor

    def send_file(self, ranks: Sequence[int], descriptor: int) -> None:
        for other in ranks:
            with contextlib.suppress(OSError):
                connections.send_file(self.data[other], descriptor)

    def look(self) -> None:
        """RestartMe if any worker is gone; does not wait."""
        for descriptor, _ in self._all.poll(0):
            self._read_watch(self._ranks[descriptor])

    def end(self, is_in_peace: bool) -> None:
        """End all connections, which wakes the threads that use them. Not in peace, others take it for a death.

        Who ends for another's death does it in peace: the others are to name that one.
        """
        for connection in self._watch.values():
            if is_in_peace:
                with contextlib.suppress(OSError):
                    connection.sendall(ENDED)
        for connection in (*self._watch.values(), *self.data.values()):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for connection in (*self._watch.values(), *self.data.values()):
            connection.close()

    def _receive(self, rank: int, rest: memoryview) -> None:
        connection = self.data[rank]
        while rest:
            try:
                count = connection.recv_into(rest, 0, socket.MSG_DONTWAIT)
            except BlockingIOError:
                self._wait(rank)
                continue
            except OSError:
                count = 0
            if not count:
                self.look()  # it may have ended because another one has gone
                raise self._gone(rank)
            rest = rest[count:]

    def _wait(self, rank: int) -> None:
        """Wait until there is something to read of a worker."""
        is_there = False
        while not is_there:
            for descriptor, _ in self._pollers[rank].poll():
                if descriptor in self._ranks:
                    self._read_watch(self._ranks[descriptor])
                else:
                    is_there = True

    def _read_watch(self, rank: int) -> None:
        """Forget a worker that has ended in peace; RestartMe for another."""
        byte = b""
        with contextlib.suppress(OSError):
            byte = self._watch[rank].recv(1, socket.MSG_DONTWAIT)
        if byte != ENDED:
            raise self._gone(rank)
        for poller in (self._all, *self._pollers.values()):
            poller.unregister(self._watch[rank])

    def _gone(self, rank: int) -> RestartMe:
        return RestartMe(
            f"worker-{rank}: its connection to worker-{self.rank} has ended in the middle of sums"
        )


def connect(rank: int, numbers: Sequence[int], seconds: float) -> Peers:
    """Return connections to all workers, of which the sockets have these `numbers` by rank.

    A worker connects to those of lower rank and accepts the others; its socket's name is deleted once all are here.
    Who is not there in time is named by a RestartMe.
    """
    deadline = time.monotonic() + seconds
    ends: connections.Ends = {}
    wanted = [(purpose, other) for other in range(rank + 1, len(numbers)) for purpose in PURPOSES]
    try:
        with connections.listening(numbers[rank], 2 * len(numbers)) as listener:
            for other, purpose in itertools.product(range(rank), PURPOSES):
                connection = connections.connect(numbers[other], purpose, rank, deadline)
                if connection is None:
                    raise _missing(rank, [other])
                ends[purpose, other] = connection
            ends.update(connections.accept(listener, wanted, deadline))
        missing = [other for _, other in wanted if any((purpose, other) not in ends for purpose in PURPOSES)]
        if missing:
            raise _missing(rank, list(dict.fromkeys(missing)))
    except BaseException:
        for connection in ends.values():
            connection.close()
        raise
    connections.settle(ends.values())
    data, watch = ({other: end for (of, other), end in ends.items() if of == purpose} for purpose in PURPOSES)
    return Peers(rank, data, watch)


def _missing(rank: int, others: Sequence[int]) -> RestartMe:
    names = ", ".join(f"worker-{other}" for other in others)
    return RestartMe(f"{names}: not connected to worker-{rank} in time, for sums without servers")


def _poll(ends: Iterable[socket.socket]) -> select.poll:
    poller = select.poll()
    for connection in ends:
        poller.register(connection, select.POLLIN)
    return poller
