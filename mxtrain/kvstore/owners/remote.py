"""The owners of a worker's parameters that are servers: `Owners` over connections to all of them.

Owns one thread for each server, which makes a worker's requests in order, so that those of several servers go on at
the same time; gradients are pushed by the caller. What a server does is `server.py`'s.
"""

from __future__ import annotations

import contextlib
import functools
import json
import socket
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Callable, Mapping, Sequence, TypeVar

import numpy as np

from mxtrain.core.errors import RestartMe
from mxtrain.data.fields import Array
from mxtrain.kvstore import connections
from mxtrain.kvstore.owners import messages, placement
from mxtrain.kvstore.owners.layout import Layout
from mxtrain.kvstore.owners.messages import PUSHES, REQUESTS, WATCH, Head, Kind
from mxtrain.kvstore.owners.owner import GradientSum, StepSums
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
        for purpose in (PUSHES, REQUESTS, WATCH):
            connection = connections.connect(number, purpose, rank, deadline)
            if connection is None:
                raise RestartMe(
                    f"server-{server}: not connected to worker-{rank} in time, which pulls weights from it"
                )
            ends[purpose, server] = connection
    connections.settle(ends.values())
    return RemoteOwners([Server(server, ends) for server in range(len(numbers))], layout)


class Server:
    """A worker's connections to one server."""

    def __init__(self, index: int, ends: connections.Ends):
        self._name = f"server-{index}"
        self._pushes, self._requests, self._watch = (
            ends[purpose, index] for purpose in (PUSHES, REQUESTS, WATCH)
        )
        self._requester = ThreadPoolExecutor(1, thread_name_prefix=self._name)

    def push(self, index: int, step: int, parts: Sequence[Array]) -> None:
        self._naming(lambda: messages.send(self._pushes, Head(Kind.PUSH, index, step), parts))

    def request(
        self, head: Head, parts: Sequence[Array | bytes], answer: Callable[[socket.socket], Result]
    ) -> Future[Result]:
        """Start a request; the result is what `answer` makes of the connection, on which the answer comes."""

        def exchange() -> Result:
            messages.send(self._requests, head, parts)
            return answer(self._requests)

        return self._requester.submit(self._naming, exchange)

    def _naming(self, exchange: Callable[[], Result]) -> Result:
        try:
            return exchange()
        except (EOFError, OSError):
            raise RestartMe(
                f"{self._name}: its connection has ended, and with it the weights it owns"
            ) from None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._watch.sendall(messages.ENDED)
        for end in (self._watch, self._requests, self._pushes):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._requester.shutdown()


class RemotePull:
    """Weights on their way from servers."""

    def __init__(self, answers: Sequence[Future[None]]):
        self._answers = answers

    def wait(self) -> None:
        for each in self._answers:
            each.result()


class RemoteOwners:
    """The `Owners` of the parameters of `layout`."""

    def __init__(self, servers: Sequence[Server], layout: Layout):
        self._servers, self._layout, self._sizes = servers, layout, layout.sizes
        self._places = placement.place(self._sizes, len(servers))
        self._step = 0
        self._on_all(Head(Kind.LAYOUT), [layout.to_json()], _done)

    def put(self, index: int, weights: Array) -> None:
        self._of(index).request(Head(Kind.PUT, index), [weights], _done).result()

    def pull(self, indices: Sequence[int], into: Sequence[Array]) -> RemotePull:
        return self._pull(Kind.PULL, indices, into)

    def pull_sums(self, indices: Sequence[int], into: Sequence[Array]) -> RemotePull:
        return self._pull(Kind.PULL_SUM, indices, into)

    def _pull(self, kind: Kind, indices: Sequence[int], into: Sequence[Array]) -> RemotePull:
        answers = []
        for index, array in zip(indices, into):
            head = Head(kind, index, self._step)
            answers.append(self._of(index).request(head, [], functools.partial(_fill, array)))
        return RemotePull(answers)

    def push(self, index: int, gradient: GradientSum) -> None:
        counts = np.array([len(gradient.wide_blocks)], np.int64)
        parts = [counts, gradient.wide_blocks, gradient.wide_totals, gradient.values]
        self._of(index).push(index, self._step, parts)

    def finish(self) -> StepSums:
        trained = [index for index, is_trained in enumerate(self._layout.are_trained) if is_trained]
        counts = {index: num_blocks(self._sizes[index]) for index in trained}
        squares = np.zeros(len(self._sizes), np.float32)
        maxima = {index: np.zeros(0, np.float32) for index in trained}
        owned = [placement.owned(self._places, server) for server in range(len(self._servers))]
        answers = []
        for server, indices in zip(self._servers, owned):
            here = [index for index in indices if index in counts]
            head = Head(Kind.FINISH, step=self._step)
            num_of_blocks = [counts[index] for index in here]
            answers.append((here, server.request(head, [], functools.partial(_step_sums, num_of_blocks))))
        for here, answer in answers:
            of_server, of_blocks = answer.result()
            squares[here] = of_server
            maxima.update(zip(here, of_blocks))
        return StepSums(squares[trained], np.concatenate([np.zeros(0, np.float32), *maxima.values()]))

    def apply(self, update: Update) -> None:
        self._decide(Kind.APPLY, [np.array(update)])

    def drop(self) -> None:
        self._decide(Kind.DROP, [])

    def _decide(self, kind: Kind, parts: Sequence[Array]) -> None:
        for server in self._servers:
            server.request(Head(kind, step=self._step), parts, lambda end: None)
        self._step += 1

    def read_state(self, index: int) -> list[Array]:
        return self._of(index).request(Head(Kind.READ_STATE, index, self._step), [], _state).result()

    def write_state(self, index: int, arrays: Sequence[Array]) -> None:
        lengths = np.array([len(arrays), *map(len, arrays)], np.int64)
        self._of(index).request(Head(Kind.WRITE_STATE, index), [lengths, *arrays], _done).result()

    def update_counts(self) -> Mapping[str, int]:
        found = self._on_all(Head(Kind.READ_COUNTS, step=self._step), [], _text)
        return {index: count for text in found for index, count in json.loads(text).items()}

    def set_update_counts(self, counts: Mapping[str, int]) -> None:
        self._on_all(Head(Kind.WRITE_COUNTS), [json.dumps(dict(counts)).encode()], _done)

    def close(self) -> None:
        """Leave the servers in peace."""
        for server in self._servers:
            server.close()

    def _of(self, index: int) -> Server:
        return self._servers[self._places[index]]

    def _on_all(
        self, head: Head, parts: Sequence[bytes], answer: Callable[[socket.socket], Result]
    ) -> list[Result]:
        return [each.result() for each in [server.request(head, parts, answer) for server in self._servers]]


def _done(end: socket.socket) -> None:
    messages.receive_head(end)


def _fill(array: Array, end: socket.socket) -> None:
    messages.receive_head(end)
    messages.receive_into(end, array)


def _text(end: socket.socket) -> bytes:
    return messages.receive_bytes(end, messages.receive_head(end).num_bytes)


def _step_sums(counts: Sequence[int], end: socket.socket) -> tuple[Array, list[Array]]:
    messages.receive_head(end)
    squares = messages.receive_array(end, len(counts), np.float32)
    return squares, [messages.receive_array(end, count, np.float32) for count in counts]


def _state(end: socket.socket) -> list[Array]:
    messages.receive_head(end)
    count = int(messages.receive_array(end, 1, np.int64)[0])
    lengths = messages.receive_array(end, count, np.int64)
    return [messages.receive_array(end, int(length), np.float32) for length in lengths]
