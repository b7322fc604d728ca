"""The owners of rows that are servers: `TableOwners` over the connections of the owners of weights.

Owns how ids are cut into those of each server, and put together again. What a server does is `requests.py`'s.
"""

from __future__ import annotations

import collections
import functools
import json
import socket
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np

from mxtrain.core.errors import DataError
from mxtrain.data.fields import Array
from mxtrain.kvstore.owners import messages
from mxtrain.kvstore.owners.messages import Head, Message
from mxtrain.kvstore.owners.server_link import ServerLink
from mxtrain.kvstore.tables.local import total_of
from mxtrain.kvstore.tables.owner import RowGradients
from mxtrain.optim.update import Update
from mxtrain.tables import placement
from mxtrain.tables.options import TableOptions, to_json

POLL_SECONDS = 0.05
MOST_SPLITS = 16  # that are remembered


class Moved(NamedTuple):
    """Rows that a step has moved, of those that were asked for before."""

    positions: Array
    rows: Array


class RemoteRows:
    """Rows on their way, of which each server has those at some positions."""

    def __init__(self, width: int, positions: Sequence[Array], answers: Sequence[Future[Array]]):
        self._width, self.positions, self._answers = width, positions, answers
        # One for each server, where rows were asked for in advance.
        self.corrections: list[Future[Moved]] = []
        self._arrivals: list[float] = []
        for each in answers:
            each.add_done_callback(lambda _: self._arrivals.append(time.monotonic()))

    @property
    def arrived(self) -> float | None:
        """The time when the last answer was here; moved rows that came after it are few."""
        return max(self._arrivals) if len(self._arrivals) == len(self._answers) else None

    def wait(self) -> Array:
        rows: Array = np.empty((sum(map(len, self.positions)), self._width), np.float32)
        for positions, answer in zip(self.positions, self._answers):
            rows[positions] = answer.result()
        for positions, correction in zip(self.positions, self.corrections):
            moved = correction.result()
            rows[positions[moved.positions]] = moved.rows
        return rows


class RemoteTables:
    """The `TableOwners` of tables of these options, on servers at the other ends of `servers`."""

    def __init__(self, servers: Sequence[ServerLink], tables: Sequence[TableOptions]):
        self._servers, self._tables = servers, list(tables)
        self._step = 0
        self._num_pushes = [0] * len(servers)  # in this step
        self._next: list[tuple[int, RemoteRows]] = []  # asked for in advance
        # Ids that rows were asked for lately, and the positions of those of each server: as those of the gradients.
        self._splits: collections.deque[tuple[Array, list[Array]]] = collections.deque(maxlen=MOST_SPLITS)
        self._on_all(Head(Message.TABLES), [to_json(self._tables)], messages.receive_head)

    def pull(self, table: int, ids: Array) -> RemoteRows:
        return self._pull(Message.PULL_ROWS, table, ids)

    def prefetch(self, table: int, ids: Array) -> RemoteRows:
        rows = self._pull(Message.PREFETCH_ROWS, table, ids)
        self._next.append((table, rows))
        return rows

    def _pull(self, message: Message, table: int, ids: Array) -> RemoteRows:
        width, positions = self._tables[table].width, self._split(ids)
        answers: list[Future[Array]] = []
        for server, places in zip(self._servers, positions):
            head = Head(message, table, self._step, len(places))
            answers.append(server.request(head, [ids[places]], functools.partial(_rows, len(places), width)))
        return RemoteRows(width, positions, answers)

    def push(self, table: int, gradients: RowGradients) -> None:
        for number, places in enumerate(self._split(gradients.ids)):
            if not len(places):
                continue
            head = Head(Message.PUSH_ROWS, table, self._step, len(places))
            use = np.array([gradients.position, gradients.place], np.int64)
            parts = [use, gradients.ids[places], gradients.gradients[places].reshape(-1)]
            self._servers[number].push(head, parts)
            self._num_pushes[number] += 1

    def _split(self, ids: Array) -> list[Array]:
        """Return the positions of the ids of each server."""
        for known, positions in self._splits:
            if known is ids:
                return positions
        positions = placement.split(ids, len(self._servers))
        self._splits.append((ids, positions))
        return positions

    def finish(self) -> int | None:
        answers = []
        for number, server in enumerate(self._servers):
            head = Head(Message.FINISH_ROWS, step=self._step, num_items=self._num_pushes[number])
            answers.append(server.request(head, [], _json))
        return total_of([each.result() for each in answers])

    def end_step(self) -> None:
        """Begin the next step, once the owners of weights have been told what becomes of this one."""
        self._step += 1
        self._num_pushes = [0] * len(self._servers)
        waiting, self._next = self._next, []
        for table, rows in waiting:
            head, width = Head(Message.MOVED_ROWS, table, self._step), self._tables[table].width
            rows.corrections = [
                server.request(head, [], functools.partial(_moved, width)) for server in self._servers
            ]

    def apply(self, update: Update) -> None:
        """Begin the next step: the decision has been told by the owners of weights."""
        self.end_step()

    def drop(self) -> None:
        """Begin the next step: the decision has been told by the owners of weights."""
        self.end_step()

    def num_rows(self, table: int) -> int:
        return sum(self._on_all(Head(Message.NUM_ROWS, table, self._step), [], _json))

    def begin(self, folder: Path, previous: Path | None) -> None:
        self._exchange(Message.BEGIN_ROWS, [folder] if previous is None else [folder, previous])

    def write(self, report_progress: Callable[[], None]) -> dict[str, Any]:
        sums: dict[str, Any] = {}
        for number, server in enumerate(self._servers):
            while True:
                found = server.request(Head(Message.ROWS_WRITTEN), [], _json).result()
                report_progress()
                if found:
                    break
                time.sleep(POLL_SECONDS)
            if "error" in found:
                raise DataError(f"server-{number}: {found['error']}")
            sums.update(found["sums"])
        return sums

    def read(self, folder: Path) -> None:
        self._exchange(Message.READ_ROWS, [folder])

    def _exchange(self, message: Message, folders: Sequence[Path]) -> None:
        text = json.dumps([str(each.absolute()) for each in folders])
        errors = self._on_all(Head(message, step=self._step), [text.encode()], _json)
        for number, error in enumerate(errors):
            if error:
                raise DataError(f"server-{number}: {error}")

    def _on_all(
        self, head: Head, parts: Sequence[bytes], answer: Callable[[socket.socket], Any]
    ) -> list[Any]:
        return [each.result() for each in [server.request(head, parts, answer) for server in self._servers]]


def _rows(count: int, width: int, end: socket.socket) -> Array:
    messages.receive_head(end)
    return messages.receive_array(end, count * width, np.float32).reshape(-1, width)


def _moved(width: int, end: socket.socket) -> Moved:
    count = messages.receive_head(end).num_items
    positions = messages.receive_array(end, count, np.int64)
    return Moved(positions, messages.receive_array(end, count * width, np.float32).reshape(-1, width))


def _json(end: socket.socket) -> Any:
    return json.loads(messages.receive_bytes(end, messages.receive_head(end).num_bytes))
