"""A server that owns weights, from its workers' connections to their end.

Owns the threads, two for each worker: one adds the gradients that it pushes, one answers its requests in their order.
Who has to wait for whom is `steps.py`'s, what a request does `requests.py`'s.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Callable, Dict

import numpy as np

from mxtrain.core.errors import RestartMe
from mxtrain.data.fields import Array
from mxtrain.kvstore import connections
from mxtrain.kvstore.owners import messages
from mxtrain.kvstore.owners.messages import PURPOSES, PUSHES, REQUESTS, WATCH, Message, check
from mxtrain.kvstore.owners.requests import Requests
from mxtrain.kvstore.owners.step_sum import PIECE
from mxtrain.optim.sums.grid import BLOCK, num_blocks

CLOSE_SECONDS = 2.0
Watched = Dict[int, socket.socket]  # by rank


def serve(
    number: int,
    index: int,
    num_servers: int,
    num_workers: int,
    seconds: float = 60.0,
    folder: Path | None = None,
) -> None:
    """Be server `index`, with the socket `number`, until all workers have ended in peace.

    What it owns is in memory, or in files of `folder`. RestartMe names a worker that has not come in time, or is gone.
    """
    wanted = [(purpose, rank) for rank in range(num_workers) for purpose in PURPOSES]
    with connections.listening(number, len(wanted)) as listener:
        ends = connections.accept(listener, wanted, time.monotonic() + seconds)
    connections.settle(ends.values())
    watched = {rank: end for (purpose, rank), end in ends.items() if purpose == WATCH}
    try:
        missing = sorted({rank for purpose, rank in wanted if (purpose, rank) not in ends})
        if missing:
            names = ", ".join(f"worker-{rank}" for rank in missing)
            raise RestartMe(f"{names}: not connected in time to server-{index}, which owns weights")
        requests = Requests(index, num_servers, num_workers, folder)
        _Threads(index, requests, ends).run(watched)
    except RestartMe as gone:
        for end in watched.values():
            connections.end_for(end, str(gone))
        raise
    # After any other error connections stay until this process has told the job why it ends.
    for end in ends.values():
        end.close()


class _Threads:
    """The threads of a server's connections, and the first error of any."""

    def __init__(self, index: int, requests: Requests, ends: connections.Ends):
        self._name, self._requests = f"server-{index}", requests
        self._failures: SimpleQueue[Exception] = SimpleQueue()
        # Written to by a thread that has failed, so that the one that polls learns of it.
        self._failed, self._wake = socket.socketpair()
        of_workers = {
            rank: [
                self._thread(self._add_pushes, ends[PUSHES, rank], rank),
                self._thread(self._answer, ends[REQUESTS, rank], rank),
            ]
            for purpose, rank in ends
            if purpose == WATCH
        }
        self._in_peace = {
            rank: threading.Event() for rank in of_workers
        }  # what its watched connection has said
        self._leaving = [
            threading.Thread(target=self._await_end, args=each, daemon=True) for each in of_workers.items()
        ]

    def run(self, watched: Watched) -> None:
        """Serve until all workers have said that they end; raises what went wrong."""
        for thread in self._leaving:
            thread.start()
        try:
            self._watch(dict(watched))
        except Exception as error:
            self._requests.steps.fail(error)
            raise
        deadline = time.monotonic() + CLOSE_SECONDS
        for thread in self._leaving:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _watch(self, watched: Watched) -> None:
        poller, ranks = select.poll(), {end.fileno(): rank for rank, end in watched.items()}
        for descriptor in (self._failed.fileno(), *ranks):
            poller.register(descriptor, select.POLLIN)
        while watched:
            for descriptor, _ in poller.poll():
                if descriptor not in ranks:
                    raise self._failures.get()
                rank = ranks[descriptor]
                said = connections.reason_of_end(watched.pop(rank))
                poller.unregister(descriptor)
                if said != connections.PEACE:
                    raise RestartMe(said or f"worker-{rank}: its connection to {self._name} has ended")
                self._in_peace[rank].set()

    def _thread(
        self, work: Callable[[socket.socket, int], None], connection: socket.socket, rank: int
    ) -> threading.Thread:
        def run() -> None:
            try:
                work(connection, rank)
            except (EOFError, ConnectionError):  # the watched connection tells why
                return
            except Exception as error:
                self._failures.put(error)
                self._wake.send(b"!")

        return threading.Thread(target=run, daemon=True)

    def _await_end(self, rank: int, threads: list[threading.Thread]) -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._in_peace[rank].wait()  # one that ends because of another says so there, maybe a little later
        self._requests.steps.leave(rank)

    def _answer(self, connection: socket.socket, rank: int) -> None:
        while True:
            self._requests.answer(connection, rank, messages.receive_head(connection))

    def _add_pushes(self, connection: socket.socket, rank: int) -> None:
        requests, buffer = self._requests, np.empty(PIECE, np.float32)
        while True:
            head = messages.receive_head(connection)
            if head.message == Message.PUSH_ROWS:
                requests.tables.add(connection, head)
                continue
            owner = requests.owner_in(head)
            check(head, head.message == Message.PUSH and head.parameter in requests.trained)
            size = requests.sizes[head.parameter]
            check(head, head.num_items <= num_blocks(size))
            blocks = messages.receive_array(connection, head.num_items, np.int64)
            check(head, _are_blocks(blocks, num_blocks(size)))
            num_wide = int(np.minimum(size - blocks * BLOCK, BLOCK).sum())
            check(head, head.num_bytes == 8 * (head.num_items + num_wide) + 4 * size)
            totals = messages.receive_array(connection, num_wide, np.float64)
            total = owner.sum_of(head.parameter)
            for start in range(0, size, PIECE):
                values = total.room(start, buffer)
                messages.receive_into(connection, values)
                total.add(start, values, blocks, totals)
            owner.finish_addend(head.parameter)
            requests.steps.notify()


def _are_blocks(blocks: Array, count: int) -> bool:
    """Return whether these are numbers of blocks, in order and each once."""
    return not len(blocks) or bool((np.diff(blocks) > 0).all() and blocks[0] >= 0 and blocks[-1] < count)
