"""Sums over workers that share no memory, one of each host, through their connections.

Each adds one part of the numbers: it gets that part of all others, and sends them its sums. What is sent waits for the
receiver in a thread for each, so no two workers wait for each other with full buffers.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from queue import SimpleQueue
from typing import Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.kvstore.allreduce.halves import rounded, widen
from mxtrain.kvstore.allreduce.partition import PIECE, SMALL, chunks, owned
from mxtrain.kvstore.allreduce.peers import Peers
from mxtrain.kvstore.connections import octets

CHUNK = 1 << 16  # elements that are added, and sent on, at a time: they are still in the core's cache
LOOK_SECONDS = 0.1


class NetworkSums:
    """Sums over the workers `members`, two or more."""

    def __init__(self, peers: Peers, members: Sequence[int]):
        self._peers, self._index = peers, members.index(peers.rank)
        self._members = members
        self._streams = {
            number: Stream(peers.data[member])
            for number, member in enumerate(members)
            if member != peers.rank
        }
        self._received = np.empty(CHUNK, np.float32)
        self._halves = np.empty(CHUNK, np.uint16)
        self.is_rounded = False  # numbers travel in bfloat16, but for those of small arrays

    def add(self, numbers: Array) -> None:
        """Replace flat float32 numbers by the sums over all members, which call this with as many."""
        for piece in chunks(numbers, PIECE):  # as a host of several workers does
            if len(piece) <= SMALL:
                self._add_small(piece)
            else:
                self._add_owned(piece)
        for stream in self._streams.values():
            while not stream.has_sent_all(LOOK_SECONDS):
                self._peers.look()

    def _add_small(self, numbers: Array) -> None:
        own = numbers.copy()
        for stream in self._streams.values():
            stream.send(own)
        numbers[:] = 0
        for number in range(len(self._members)):  # all in the same order, for sums that are rounded
            numbers += own if number == self._index else self._next(number, len(numbers))

    def _add_owned(self, numbers: Array) -> None:
        sections = [
            numbers[owned(len(numbers), number, len(self._members))] for number in range(len(self._members))
        ]
        for number, stream in self._streams.items():
            if self.is_rounded:
                for chunk in chunks(sections[number], CHUNK):
                    stream.send(rounded(chunk))
            else:
                stream.send(sections[number])
        for total in chunks(sections[self._index], CHUNK):
            for number in self._streams:
                np.add(total, self._next(number, len(total), self.is_rounded), out=total)
            self._send_sums(total)
        for number in self._streams:  # who sends sums has read all that they replace
            if self.is_rounded:
                for chunk in chunks(sections[number], CHUNK):
                    chunk[:] = self._next(number, len(chunk), is_rounded=True)
            else:
                self._peers.receive(self._members[number], sections[number])

    def _send_sums(self, total: Array) -> None:
        """Send sums to all others; rounded they are the same ones here."""
        sent: Array = total
        if self.is_rounded:
            sent = rounded(total)
            widen(sent, total)
        for stream in self._streams.values():
            stream.send(sent)

    def _next(self, number: int, count: int, is_rounded: bool = False) -> Array:
        """Return the next numbers that a member has sent; they are overwritten by the next call."""
        received, member = self._received[:count], self._members[number]
        if is_rounded:
            self._peers.receive(member, self._halves[:count])
            widen(self._halves[:count], received)
        else:
            self._peers.receive(member, received)
        return received

    def close(self) -> None:
        """End the threads; connections must have been ended."""
        for stream in self._streams.values():
            stream.close()


class Stream:
    """A thread that sends arrays to one worker, in order; once the connection has failed it drops them."""

    def __init__(self, connection: socket.socket):
        self._connection = connection
        self._queue: SimpleQueue[memoryview | threading.Event | None] = SimpleQueue()
        self._last: threading.Event | None = None
        self._thread = threading.Thread(target=self._run, name="allreduce-sender", daemon=True)
        self._thread.start()

    def send(self, numbers: Array) -> None:
        """Send numbers that nobody changes until they have been sent."""
        self._queue.put(octets(numbers))

    def has_sent_all(self, seconds: float) -> bool:
        """Return whether all is sent, after waiting for it."""
        if self._last is None:
            self._last = threading.Event()
            self._queue.put(self._last)
        if not self._last.wait(seconds):
            return False
        self._last = None
        return True

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
            else:
                with contextlib.suppress(OSError):  # the watched connection tells
                    self._connection.sendall(item)
