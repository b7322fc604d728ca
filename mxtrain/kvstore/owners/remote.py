"""The owners of a worker's parameters that are servers: `Owners` over connections to all of them.

Owns how a request is cut into those of each server, which go on at the same time; a gradient is pushed by its caller.
A server's connections are `server_link.py`'s, what it does `server.py`'s.
"""

from __future__ import annotations

import atexit
import functools
import json
import socket
import time
from concurrent.futures import Future
from typing import Callable, Mapping, Sequence, TypeVar

import numpy as np

from mxtrain.core.errors import RestartMe
from mxtrain.data.fields import Array
from mxtrain.kvstore import connections
from mxtrain.kvstore.owners import messages, placement
from mxtrain.kvstore.owners.layout import Layout
from mxtrain.kvstore.owners.messages import PURPOSES, WATCH, Head, Message
from mxtrain.kvstore.owners.owner import GradientSum, StepSums
from mxtrain.kvstore.owners.server_link import Links, ServerLink
from mxtrain.optim.sums.grid import num_blocks
from mxtrain.optim.update import Update

Result = TypeVar("Result")


def connect(rank: int, numbers: Sequence[int], layout: Layout, seconds: float = 60.0) -> RemoteOwners:
    """Return the owners of these parameters, servers whose sockets have these `numbers`, as worker `rank` sees them.

    RestartMe names a server that is not there in time.
    """
    deadline = time.monotonic() + seconds
    ends: connections.Ends = {}
    for server, number in enumerate(numbers):
        for purpose in PURPOSES:
            connection = connections.connect(number, purpose, rank, deadline)
            if connection is None:
                reason = (
                    f"server-{server}: not connected to worker-{rank} in time, which pulls weights from it"
                )
                for (of, _), end in ends.items():
                    if of == WATCH:
                        connections.end_for(end, reason)
                raise RestartMe(reason)
            ends[purpose, server] = connection
    connections.settle(ends.values())
    return RemoteOwners(Links(rank, len(numbers), ends), layout)


class RemotePull:
    """Weights on their way from servers."""

    def __init__(self, answers: Sequence[Future[None]]):
        self._answers = answers

    def wait(self) -> None:
        for each in self._answers:
            each.result()


class RemoteOwners:
    """The `Owners` of the parameters of `layout`."""

    def __init__(self, links: Links, layout: Layout):
        self._links, self._servers = links, links.servers
        self._layout, self._sizes = layout, layout.sizes
        self._places = placement.place(self._sizes, len(self._servers))
        self._step = 0
        atexit.register(self.close)  # or servers would take this worker's end for a death
        self._on_all(Head(Message.LAYOUT), [layout.to_json()], _done)

    @property
    def links(self) -> list[ServerLink]:
        """The connections to all servers, for those who own other things there."""
        return self._servers

    def put(self, index: int, weights: Array) -> None:
        self._of(index).request(Head(Message.PUT, index), [weights], _done).result()

    def pull(self, indices: Sequence[int], into: Sequence[Array]) -> RemotePull:
        return self._pull(Message.PULL, indices, into)

    def pull_sums(self, indices: Sequence[int], into: Sequence[Array]) -> RemotePull:
        return self._pull(Message.PULL_SUMS, indices, into)

    def _pull(self, message: Message, indices: Sequence[int], into: Sequence[Array]) -> RemotePull:
        wanted: dict[int, tuple[list[int], list[Array]]] = {}  # of each server
        for index, array in zip(indices, into):
            of_server, arrays = wanted.setdefault(self._places[index], ([], []))
            of_server.append(index)
            arrays.append(array)
        answers = []
        for server, (of_server, arrays) in wanted.items():
            head = Head(message, step=self._step, num_items=len(of_server))
            parts = [np.array(of_server, np.int64)]
            answers.append(self._servers[server].request(head, parts, functools.partial(_fill, arrays)))
        return RemotePull(answers)

    def push(self, index: int, gradient: GradientSum) -> None:
        head = Head(Message.PUSH, index, self._step, len(gradient.wide_blocks))
        self._of(index).push(head, [gradient.wide_blocks, gradient.wide_totals, gradient.values])

    def finish(self) -> StepSums:
        trained = [index for index, is_trained in enumerate(self._layout.are_trained) if is_trained]
        counts = {index: num_blocks(self._sizes[index]) for index in trained}
        squares = np.zeros(len(self._sizes), np.float32)
        maxima = {index: np.zeros(0, np.float32) for index in trained}
        owned = [placement.owned(self._places, server) for server in range(len(self._servers))]
        answers = []
        for server, indices in zip(self._servers, owned):
            here = [index for index in indices if index in counts]
            head = Head(Message.FINISH, step=self._step)
            num_of_blocks = [counts[index] for index in here]
            answers.append((here, server.request(head, [], functools.partial(_step_sums, num_of_blocks))))
        for here, answer in answers:
            of_server, of_blocks = answer.result()
            squares[here] = of_server
            maxima.update(zip(here, of_blocks))
        return StepSums(squares[trained], np.concatenate([np.zeros(0, np.float32), *maxima.values()]))

    def apply(self, update: Update) -> None:
        self._decide(Message.APPLY, [np.array(update)])

    def drop(self) -> None:
        self._decide(Message.DROP, [])

    def _decide(self, message: Message, parts: Sequence[Array]) -> None:
        for server in self._servers:
            server.request(Head(message, step=self._step), parts, lambda end: None)
        self._step += 1

    def read_state(self, index: int) -> list[Array]:
        return self._of(index).request(Head(Message.READ_STATE, index, self._step), [], _state).result()

    def write_state(self, index: int, arrays: Sequence[Array]) -> None:
        lengths = np.array(list(map(len, arrays)), np.int64)
        head = Head(Message.WRITE_STATE, index, num_items=len(arrays))
        self._of(index).request(head, [lengths, *arrays], _done).result()

    def update_counts(self) -> Mapping[str, int]:
        found = self._on_all(Head(Message.READ_COUNTS, step=self._step), [], _text)
        return {index: count for text in found for index, count in json.loads(text).items()}

    def set_update_counts(self, counts: Mapping[str, int]) -> None:
        self._on_all(Head(Message.WRITE_COUNTS), [json.dumps(dict(counts)).encode()], _done)

    def close(self) -> None:
        """Leave the servers: in peace, if all are there."""
        atexit.unregister(self.close)
        self._links.close()

    def _of(self, index: int) -> ServerLink:
        return self._servers[self._places[index]]

    def _on_all(
        self, head: Head, parts: Sequence[bytes], answer: Callable[[socket.socket], Result]
    ) -> list[Result]:
        return [each.result() for each in [server.request(head, parts, answer) for server in self._servers]]


def _done(end: socket.socket) -> None:
    messages.receive_head(end)


def _fill(arrays: Sequence[Array], end: socket.socket) -> None:
    messages.receive_head(end)
    for array in arrays:
        messages.receive_into(end, array)


def _text(end: socket.socket) -> bytes:
    return messages.receive_bytes(end, messages.receive_head(end).num_bytes)


def _step_sums(counts: Sequence[int], end: socket.socket) -> tuple[Array, list[Array]]:
    messages.receive_head(end)
    squares = messages.receive_array(end, len(counts), np.float32)
    return squares, [messages.receive_array(end, count, np.float32) for count in counts]


def _state(end: socket.socket) -> list[Array]:
    lengths = messages.receive_array(end, messages.receive_head(end).num_items, np.int64)
    return [messages.receive_array(end, int(length), np.float32) for length in lengths]
