"""A server that owns weights: what it does with the messages of the workers.

Two threads for each worker: one adds the gradients that it pushes, one answers its requests in their order. A request
to apply or to drop is done once all workers have made it, so what a worker pulls after it is of the new weights, and
sums of a later step wait until then. Owns no arithmetic (`parameter_owner.py`).
"""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from queue import Empty, SimpleQueue
from typing import Callable, Iterator

import numpy as np

from mxtrain.core.errors import RestartMe
from mxtrain.data.fields import Array
from mxtrain.kvstore import connections
from mxtrain.kvstore.owners import layout as layouts
from mxtrain.kvstore.owners import messages, placement
from mxtrain.kvstore.owners.layout import Layout
from mxtrain.kvstore.owners.messages import Head, Kind
from mxtrain.kvstore.owners.owner import StepSums
from mxtrain.kvstore.owners.parameter_owner import ParameterOwner
from mxtrain.kvstore.owners.step_sum import PIECE
from mxtrain.optim.sums.grid import BLOCK, num_blocks
from mxtrain.optim.update import Update

# In which the control channel tells what a worker's end means, where there is one.
GRACE_SECONDS = 2.0


def serve(number: int, index: int, num_servers: int, num_workers: int, seconds: float = 60.0) -> None:
    """Be server `index`, with the socket `number`, until all workers have ended in peace.

    RestartMe names a worker that has not come in time, or is gone.
    """
    purposes = (messages.PUSHES, messages.REQUESTS, messages.WATCH)
    wanted = [(purpose, rank) for rank in range(num_workers) for purpose in purposes]
    with connections.listening(number, len(wanted)) as listener:
        ends = connections.accept(listener, wanted, time.monotonic() + seconds)
    missing = sorted({rank for purpose, rank in wanted if (purpose, rank) not in ends})
    if missing:
        names = ", ".join(f"worker-{rank}" for rank in missing)
        raise RestartMe(f"{names}: not connected in time to server-{index}, which owns weights")
    connections.settle(ends.values())
    Server(index, num_servers, num_workers).run(ends)


class Server:
    """The state of a server that its threads share: what it owns, and where the step is."""

    def __init__(self, index: int, num_servers: int, num_workers: int):
        self._index, self._num_servers, self._num_workers = index, num_servers, num_workers
        self._changed = threading.Condition()
        self._layout: Layout | None = None
        self._owner: ParameterOwner | None = None
        self._step = 0
        self._sums: StepSums | None = None  # of this step, once known
        self._decisions: list[Update | None] = []  # of this step
        self._failures: SimpleQueue[Exception] = SimpleQueue()

    def run(self, ends: connections.Ends) -> None:
        """Serve until all workers have said that they end; raises what went wrong."""
        for (purpose, _), connection in ends.items():
            if purpose != messages.WATCH:
                work = self._add_pushes if purpose == messages.PUSHES else self._answer
                threading.Thread(target=self._guarded, args=(work, connection), daemon=True).start()
        watched = {
            end.fileno(): (rank, end) for (purpose, rank), end in ends.items() if purpose == messages.WATCH
        }
        poller = select.poll()
        for descriptor in watched:
            poller.register(descriptor, select.POLLIN)
        while watched:
            for descriptor, _ in poller.poll(100):
                rank, connection = watched.pop(descriptor)
                poller.unregister(descriptor)
                if not _has_ended_in_peace(connection):
                    self._raise_failure(GRACE_SECONDS)
                    raise RestartMe(f"worker-{rank}: its connection to server-{self._index} has ended")
            self._raise_failure()

    def _raise_failure(self, seconds: float = 0.0) -> None:
        try:
            raise self._failures.get(seconds > 0, seconds)
        except Empty:
            pass

    def _guarded(self, work: Callable[[socket.socket], None], connection: socket.socket) -> None:
        try:
            work(connection)
        except (EOFError, ConnectionError):  # the watched connection tells
            return
        except Exception as error:
            self._failures.put(error)

    def _add_pushes(self, connection: socket.socket) -> None:
        buffer: Array = np.empty(PIECE, np.float32)
        while True:
            head = messages.receive_head(connection)
            owner = self._ready(head.step)
            self._check(head, head.kind == Kind.PUSH and head.parameter in owner.trained)
            size = self._sizes[head.parameter]
            num_wide = int(messages.receive_array(connection, 1, np.int64)[0])
            self._check(head, 0 <= num_wide <= num_blocks(size))
            blocks = messages.receive_array(connection, num_wide, np.int64)
            self._check(head, bool(((blocks >= 0) & (blocks < num_blocks(size))).all()))
            lengths = np.minimum(size - blocks * BLOCK, BLOCK)
            self._check(head, head.num_bytes == 8 * (1 + num_wide + int(lengths.sum())) + 4 * size)
            totals = messages.receive_array(connection, int(lengths.sum()), np.float64)
            total = owner.sum_of(head.parameter)
            for start in range(0, size, PIECE):
                values = buffer[: min(PIECE, size - start)]
                messages.receive_into(connection, values)
                total.add(start, values, blocks, totals)
            total.finish_addend()
            with self._changed:
                self._changed.notify_all()

    def _answer(self, connection: socket.socket) -> None:
        while True:
            head = messages.receive_head(connection)
            if head.kind == Kind.LAYOUT:
                self._take_layout(layouts.from_json(messages.receive_bytes(connection, head.num_bytes)))
                messages.send(connection, Head(Kind.DONE))
                continue
            owner = self._ready(head.step)
            if head.kind in (Kind.APPLY, Kind.DROP):
                self._decide(owner, self._decision(connection, head))
            elif head.kind == Kind.FINISH:
                messages.send(connection, Head(Kind.DONE), self._finished(owner))
            else:
                self._exchange(owner, connection, head)

    def _exchange(self, owner: ParameterOwner, connection: socket.socket, head: Head) -> None:
        """Answer a request that leaves the step where it is."""
        index = head.parameter
        done = Head(Kind.DONE, index)
        if head.kind == Kind.READ_COUNTS:
            messages.send(connection, done, [json.dumps(dict(owner.update_counts())).encode()])
        elif head.kind == Kind.WRITE_COUNTS:
            owner.set_update_counts(json.loads(messages.receive_bytes(connection, head.num_bytes)))
            messages.send(connection, done)
        else:
            self._check(head, index in owner.indices)
            if head.kind == Kind.PULL:
                messages.send(connection, done, [owner.weights(index)])
            elif head.kind == Kind.PULL_SUM:
                messages.send(connection, done, [owner.sum_of(index).numbers])
            elif head.kind == Kind.PUT:
                self._check(head, head.num_bytes == 4 * self._sizes[index])
                messages.receive_into(connection, owner.weights(index))
                messages.send(connection, done)
            elif head.kind == Kind.READ_STATE:
                arrays = owner.state(index)
                lengths = np.array([len(arrays), *map(len, arrays)], np.int64)
                messages.send(connection, done, [lengths, *arrays])
            elif head.kind == Kind.WRITE_STATE:
                owner.write_state(index, list(self._state(connection, head)))
                messages.send(connection, done)
            else:
                self._check(head, False)

    def _state(self, connection: socket.socket, head: Head) -> Iterator[Array]:
        count = int(messages.receive_array(connection, 1, np.int64)[0])
        self._check(head, 0 <= count <= 16)
        lengths = messages.receive_array(connection, count, np.int64)
        self._check(head, head.num_bytes == 8 * (1 + count) + 4 * int(lengths.sum()))
        for length in lengths:
            yield messages.receive_array(connection, int(length), np.float32)

    def _take_layout(self, layout: Layout) -> None:
        """Make what this server owns, once; all workers must have the same."""
        with self._changed:
            if self._layout is None:
                servers = placement.place(layout.sizes, self._num_servers)
                self._owner = ParameterOwner(layout, placement.owned(servers, self._index), self._num_workers)
                self._layout, self._sizes = layout, layout.sizes
                self._changed.notify_all()
            elif self._layout != layout:
                raise ValueError("workers have unlike nets or optimizers")

    def _ready(self, step: int) -> ParameterOwner:
        """Wait for a layout, and for the end of steps before `step`."""
        with self._changed:
            self._changed.wait_for(lambda: self._owner is not None and self._step >= step)
            assert self._owner is not None
            if step not in (-1, self._step):
                raise ValueError(f"a message of step {step} in step {self._step}")
            return self._owner

    def _finished(self, owner: ParameterOwner) -> StepSums:
        """Wait for all sums of the step; return what is to be known of them, which the first to ask computes."""
        with self._changed:
            self._changed.wait_for(lambda: owner.is_complete)
            if self._sums is None:
                self._sums = owner.step_sums()
            return self._sums

    @staticmethod
    def _decision(connection: socket.socket, head: Head) -> Update | None:
        if head.kind == Kind.DROP:
            return None
        return Update(*messages.receive_array(connection, len(Update._fields), np.float64).tolist())

    def _decide(self, owner: ParameterOwner, decision: Update | None) -> None:
        """Wait until all workers have said what becomes of the step's sums; the last one does it."""
        with self._changed:
            step = self._step
            self._decisions.append(decision)
            if any(each != self._decisions[0] for each in self._decisions):
                raise ValueError(f"workers disagree on an update: {self._decisions}")
            if len(self._decisions) == self._num_workers:
                if decision is None:
                    owner.drop()
                else:
                    owner.apply(decision)
                self._decisions, self._sums, self._step = [], None, step + 1
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._step > step)

    @staticmethod
    def _check(head: Head, is_right: bool) -> None:
        if not is_right:
            raise ValueError(f"a message that no worker sends: {head}")


def _has_ended_in_peace(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == messages.ENDED
    except OSError:
        return False
