"""Requests of workers to a server that owns weights, and its answers."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from typing import Iterator

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.kvstore.connections import octets
from mxtrain.kvstore.owners import layout as layouts
from mxtrain.kvstore.owners import messages, placement
from mxtrain.kvstore.owners.layout import Layout
from mxtrain.kvstore.owners.messages import Head, Message, check
from mxtrain.kvstore.owners.owner import StepSums
from mxtrain.kvstore.owners.parameter_owner import ParameterOwner
from mxtrain.kvstore.owners.steps import Steps
from mxtrain.kvstore.tables.requests import TableRequests
from mxtrain.optim.update import Update

MOST_ARRAYS = 64  # of a parameter's state
NUMBERS_OF_UPDATE = len(Update._fields)


class Requests:
    """The requests of all workers of server `index`, each answered by a thread of its worker."""

    def __init__(self, index: int, num_servers: int, num_workers: int, folder: Path | None):
        self._index, self._num_servers, self._num_workers = index, num_servers, num_workers
        self._folder = folder
        self.steps: Steps[Update | None] = Steps(num_workers)
        self.tables = TableRequests(index, num_servers, num_workers, self.steps, folder)
        self.sizes: list[int] = []
        self.trained: frozenset[int] = frozenset()
        self._owned: frozenset[int] = frozenset()
        self._layout: Layout | None = None
        self._owner: ParameterOwner | None = None
        self._sums: StepSums | None = None  # of this step, once known
        self._first = threading.Lock()  # of those who want the same

    def owner_in(self, head: Head) -> ParameterOwner:
        """Wait for the step of a message; ValueError for one that comes before a layout."""
        check(head, self._owner is not None)
        self.steps.await_step(head.step)
        assert self._owner is not None
        return self._owner

    def answer(self, connection: socket.socket, rank: int, head: Head) -> None:
        """Do what the message with this `head` says; ValueError for one that no worker sends."""
        done = Head(Message.DONE, head.parameter)
        if head.message == Message.LAYOUT:
            self._take_layout(layouts.from_json(messages.receive_bytes(connection, head.num_bytes)))
            messages.send(connection, done)
            return
        if head.message in TableRequests.MESSAGES:
            self.tables.answer(connection, rank, head)
            return
        owner = self.owner_in(head)
        if head.message in (Message.APPLY, Message.DROP):
            self._decide(owner, rank, self._decision(connection, head))
        elif head.message == Message.FINISH:
            check(head, head.num_bytes == 0)
            messages.send(connection, done, self._finished(owner))
        elif head.message in (Message.PULL, Message.PULL_SUMS):
            self._send(owner, connection, head)
        elif head.message == Message.READ_COUNTS:
            check(head, head.num_bytes == 0)
            messages.send(connection, done, [json.dumps(dict(owner.update_counts())).encode()])
        elif head.message == Message.WRITE_COUNTS:
            owner.set_update_counts(json.loads(messages.receive_bytes(connection, head.num_bytes)))
            messages.send(connection, done)
        else:
            self._exchange(owner, connection, head)

    def _exchange(self, owner: ParameterOwner, connection: socket.socket, head: Head) -> None:
        """Answer a request about one parameter's weights or state."""
        index, done = head.parameter, Head(Message.DONE, head.parameter)
        check(head, index in self._owned)
        if head.message == Message.PUT:
            check(head, head.num_bytes == 4 * self.sizes[index])
            messages.receive_into(connection, owner.weights(index))
            messages.send(connection, done)
        elif head.message == Message.READ_STATE:
            check(head, head.num_bytes == 0)
            arrays = owner.state(index)
            lengths = np.array(list(map(len, arrays)), np.int64)
            messages.send(connection, done._replace(num_items=len(arrays)), [lengths, *arrays])
        elif head.message == Message.WRITE_STATE:
            owner.write_state(index, list(self._state(connection, head)))
            messages.send(connection, done)
        else:
            check(head, False)

    def _send(self, owner: ParameterOwner, connection: socket.socket, head: Head) -> None:
        """Send arrays of many parameters, each as soon as it is there."""
        check(head, head.num_bytes == 8 * head.num_items <= 8 * len(self.sizes))
        indices = messages.receive_array(connection, head.num_items, np.int64).tolist()
        is_pull = head.message == Message.PULL
        check(head, set(indices) <= (self._owned if is_pull else self.trained))
        messages.send(connection, Head(Message.DONE, num_items=head.num_items))
        for index in indices:
            array = owner.weights(index) if is_pull else owner.sum_of(index).numbers
            connection.sendall(octets(array))

    def _state(self, connection: socket.socket, head: Head) -> Iterator[Array]:
        check(head, head.num_items <= MOST_ARRAYS)
        lengths = messages.receive_array(connection, head.num_items, np.int64)
        most = max(1, self.sizes[head.parameter])
        check(head, bool(((lengths >= 0) & (lengths <= most)).all()))
        check(head, head.num_bytes == 8 * head.num_items + 4 * int(lengths.sum()))
        for length in lengths:
            yield messages.receive_array(connection, int(length), np.float32)

    def _take_layout(self, layout: Layout) -> None:
        """Make what this server owns, once; all workers must have the same."""
        with self._first:
            if self._layout is None:
                owned = placement.owned(placement.place(layout.sizes, self._num_servers), self._index)
                owner = ParameterOwner(layout, owned, self._num_workers, self._folder)
                self.sizes, self.trained, self._owned = (
                    layout.sizes,
                    frozenset(owner.trained),
                    frozenset(owned),
                )
                self._layout, self._owner = layout, owner
            elif self._layout != layout:
                raise ValueError("workers have unlike nets or optimizers")

    def _finished(self, owner: ParameterOwner) -> StepSums:
        """Wait for all sums of the step; return what is to be known of them, which the first to ask computes."""
        self.steps.await_all(lambda: owner.is_complete)
        with self._first:
            if self._sums is None:
                self._sums = owner.step_sums()
            return self._sums

    def _decision(self, connection: socket.socket, head: Head) -> Update | None:
        is_apply = head.message == Message.APPLY
        check(head, head.num_bytes == (8 * NUMBERS_OF_UPDATE if is_apply else 0))
        if not is_apply:
            return None
        return Update(*messages.receive_array(connection, NUMBERS_OF_UPDATE, np.float64).tolist())

    def _decide(self, owner: ParameterOwner, rank: int, decision: Update | None) -> None:
        def carry_out(decision: Update | None) -> None:
            self._sums = None
            if decision is None:
                owner.drop()
            else:
                owner.apply(decision)
            self.tables.carry_out(decision)

        self.steps.decide(rank, decision, carry_out)
