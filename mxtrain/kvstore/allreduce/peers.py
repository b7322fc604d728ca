"""Connections between the workers of a job: two from each to each, by the numbers of their unix sockets.

One carries data, the other nothing: it is there to end, so that whoever waits learns of any worker's death at once,
whatever is still unread. A worker that ends in peace says so there before. A number leads to another host too, by the
gateways' sockets (docs/adr/0050).
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
import weakref
from typing import Dict, Iterable, Iterator, Sequence

from mxtrain.cluster import unix_sockets
from mxtrain.core.errors import RestartMe
from mxtrain.data.fields import Array
from mxtrain.kvstore.allreduce.partition import octets

DATA, WATCH = b"data", b"watch"
PURPOSES = (DATA, WATCH)
ACCEPTED, ENDED, SIGNAL = b"+", b".", b"!"
MAX_LINE = 32
RETRY_SECONDS = 0.02
BUFFER_BYTES = 4 << 20  # the kernel gives as much of it as net.core.wmem_max allows

Connections = Dict[int, socket.socket]  # by rank
Connected = Dict[bytes, Connections]  # by purpose
_open: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def _close_inherited() -> None:
    """Close a forked child's copies, which would keep connections open after its parent's death."""
    for connection in list(_open):
        connection.close()


os.register_at_fork(after_in_child=_close_inherited)


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
        _, ancillary, _, _ = self.data[rank].recvmsg(1, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
        if not ancillary:
            raise self._gone(rank)
        return int.from_bytes(ancillary[0][2][:4], "little")

    def send_file(self, ranks: Sequence[int], descriptor: int) -> None:
        content = descriptor.to_bytes(4, "little")
        for other in ranks:
            with contextlib.suppress(OSError):
                self.data[other].sendmsg([SIGNAL], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, content)])

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
    connected: Connected = {purpose: {} for purpose in PURPOSES}
    try:
        with _listening(numbers[rank], 2 * len(numbers)) as listener:
            for other in range(rank):
                for purpose in PURPOSES:
                    connected[purpose][other] = _connect(rank, other, numbers[other], purpose, deadline)
            _accept(listener, rank, len(numbers), connected, deadline)
    except BaseException:
        for connection in _all(connected):
            connection.close()
        raise
    for connection in _all(connected):
        _open.add(connection)
        connection.settimeout(None)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    return Peers(rank, connected[DATA], connected[WATCH])


@contextlib.contextmanager
def _listening(number: int, backlog: int) -> Iterator[socket.socket]:
    """A block in which a socket of this number listens, for this user alone."""
    with unix_sockets.listen(number, backlog) as listener:
        try:
            yield listener
        finally:
            (unix_sockets.FOLDER / str(number)).unlink(missing_ok=True)


def _all(connected: Connected) -> Iterator[socket.socket]:
    return (connection for connections in connected.values() for connection in connections.values())


def _connect(rank: int, other: int, number: int, purpose: bytes, deadline: float) -> socket.socket:
    while time.monotonic() < deadline:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(max(deadline - time.monotonic(), RETRY_SECONDS))
        with contextlib.suppress(OSError):
            connection.connect(str(unix_sockets.FOLDER / str(number)))
            connection.sendall(b"%s %d\n" % (purpose, rank))
            if connection.recv(1) == ACCEPTED:  # a gateway accepts before the worker behind it does
                return connection
        connection.close()
        time.sleep(RETRY_SECONDS)
    raise _missing(rank, [other])


def _accept(
    listener: socket.socket, rank: int, num_workers: int, connected: Connected, deadline: float
) -> None:
    """Accept both connections of each worker of higher rank."""
    while missing := [
        other
        for other in range(rank + 1, num_workers)
        if any(other not in connected[each] for each in PURPOSES)
    ]:
        listener.settimeout(max(deadline - time.monotonic(), 1e-3))
        try:
            connection, _ = listener.accept()
        except socket.timeout:
            raise _missing(rank, missing) from None
        connection.settimeout(max(deadline - time.monotonic(), 1e-3))
        with contextlib.suppress(OSError, ValueError, KeyError):
            purpose, _, sender = _read_line(connection).partition(b" ")
            connections, other = connected[purpose], int(sender)
            connection.sendall(ACCEPTED)
            if other in connections:  # given up there and made again
                connections.pop(other).close()
            connections[other] = connection
            continue
        connection.close()


def _read_line(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n") and len(line) < MAX_LINE:
        byte = connection.recv(1)
        if not byte:
            raise ConnectionError
        line += byte
    return line.strip()


def _missing(rank: int, others: Sequence[int]) -> RestartMe:
    names = ", ".join(f"worker-{other}" for other in others)
    return RestartMe(f"{names}: not connected to worker-{rank} in time, for sums without servers")


def _poll(connections: Iterable[socket.socket]) -> select.poll:
    poller = select.poll()
    for connection in connections:
        poller.register(connection, select.POLLIN)
    return poller
