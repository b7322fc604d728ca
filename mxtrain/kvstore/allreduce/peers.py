"""Connections between the workers of a job: two from each to each, by the numbers of their unix sockets.

One carries data; the other is there to end, so that whoever waits learns of any worker's death at once, whatever is
still unread, and carries one line before that, of a worker that ends in peace or for another's death. A number leads to
another host too, by the gateways' sockets (docs/adr/0050).
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
SIGNAL = b"!"
REASON_MILLISECONDS = 1000  # in which a worker's end on one connection is followed by that on the other

Connections = Dict[int, socket.socket]  # by rank


class Peers:
    """The other workers, connected; one thread receives, and others may send."""

    def __init__(self, rank: int, data: Connections, watched: Connections):
        self.rank, self.data, self._watched = rank, data, watched
        self._ranks = {connection.fileno(): other for other, connection in watched.items()}
        self._all = _poll(watched.values())
        self._pollers = {other: _poll([connection, *watched.values()]) for other, connection in data.items()}

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
            raise self._end_of(rank)
        return descriptor

    def send_file(self, ranks: Sequence[int], descriptor: int) -> None:
        for other in ranks:
            with contextlib.suppress(OSError):
                connections.send_file(self.data[other], descriptor)

    def look(self) -> None:
        """RestartMe if any worker is gone; does not wait."""
        for descriptor, _ in self._all.poll(0):
            self._read_watch(self._ranks[descriptor])

    def end(self, reason: str = connections.PEACE) -> None:
        """End all connections, which wakes the threads that use them.

        The others give the `reason`, if it is another one's death, as theirs; without any they take this for a death.
        """
        for connection in self._watched.values():
            connections.end_for(connection, reason)
        for connection in (*self._watched.values(), *self.data.values()):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for connection in (*self._watched.values(), *self.data.values()):
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
                raise self._end_of(rank)
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

    def _end_of(self, rank: int) -> RestartMe:
        """Return why nothing more comes of a worker, which its watched connection says, by a gateway a little later.

        It may have ended because another one is gone, whose own connections are still to end: a process that is killed
        closes them one after the other.
        """
        try:
            self.look()
            if _poll([self._watched[rank]]).poll(REASON_MILLISECONDS):
                self._read_watch(rank)
        except RestartMe as reason:
            return reason
        return self._gone(rank)

    def _read_watch(self, rank: int) -> None:
        """Forget a worker that has ended in peace; RestartMe for another."""
        said = connections.reason_of_end(self._watched[rank])
        if said != connections.PEACE:
            raise RestartMe(said) if said else self._gone(rank)
        for poller in (self._all, *self._pollers.values()):
            poller.unregister(self._watched[rank])

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
    data, watched = (
        {other: end for (of, other), end in ends.items() if of == purpose} for purpose in PURPOSES
    )
    return Peers(rank, data, watched)


def _missing(rank: int, others: Sequence[int]) -> RestartMe:
    names = ", ".join(f"worker-{other}" for other in others)
    return RestartMe(f"{names}: not connected to worker-{rank} in time, for sums without servers")


def _poll(ends: Iterable[socket.socket]) -> select.poll:
    poller = select.poll()
    for connection in ends:
        poller.register(connection, select.POLLIN)
    return poller
