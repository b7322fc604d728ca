"""Requests of workers to a server that owns rows of tables, and its answers."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mxtrain.core.errors import Stop
from mxtrain.data.fields import Array
from mxtrain.kvstore.owners import messages
from mxtrain.kvstore.owners.messages import Head, Message, check
from mxtrain.kvstore.owners.steps import Steps
from mxtrain.kvstore.tables.local import begin, total_of, write
from mxtrain.kvstore.tables.owner import RowGradients
from mxtrain.kvstore.tables.share import TableShare
from mxtrain.optim.update import Update
from mxtrain.tables.options import TableOptions, from_json

MOST_IDS = 1 << 28  # of a message
MOST_WAITING = 1 << 16  # pulls in advance, of a worker


class _Prefetched(NamedTuple):
    table: int
    ids: Array


class TableRequests:
    """The requests of all workers for the rows that this server owns; each is answered by a thread of its worker."""

    MESSAGES = frozenset(
        {
            Message.TABLES,
            Message.PULL_ROWS,
            Message.PREFETCH_ROWS,
            Message.MOVED_ROWS,
            Message.FINISH_ROWS,
            Message.NUM_ROWS,
            Message.BEGIN_ROWS,
            Message.ROWS_WRITTEN,
            Message.READ_ROWS,
        }
    )

    def __init__(self, share: int, num_shares: int, num_workers: int, steps: Steps[Any], folder: Path | None):
        self._share_number, self._num_shares, self._folder = share, num_shares, folder
        self._num_workers, self._steps = num_workers, steps
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="rows")
        self._written: Future[dict[str, Any]] | None = None
        self._options: list[TableOptions] | None = None
        self._shares: list[TableShare] = []
        self._prefetched: dict[int, list[_Prefetched]] = {}  # by rank, in their order
        self._num_pushed = 0  # in this step, by all workers
        self._num_expected: dict[
            int, int
        ] = {}  # of them, by the rank of a worker that has pushed all of its own
        self._changing = threading.Lock()

    def answer(self, connection: socket.socket, rank: int, head: Head) -> None:
        """Do what the message with this `head`, one of `MESSAGES`, says; ValueError for one that no worker sends."""
        done = Head(Message.DONE, head.parameter)
        if head.message == Message.TABLES:
            self._take(from_json(messages.receive_bytes(connection, head.num_bytes)))
            messages.send(connection, done)
        elif head.message == Message.FINISH_ROWS:
            check(head, head.num_bytes == 0)
            messages.send(connection, done, [_json(self._finished(rank, head))])
        elif head.message == Message.MOVED_ROWS:
            self._send_moved(connection, rank, head)
        elif head.message == Message.NUM_ROWS:
            messages.send(connection, done, [_json(self._share(head).arena.num_rows)])
        elif head.message == Message.ROWS_WRITTEN:
            messages.send(connection, done, [_json(self._sums_of_files())])
        elif head.message in (Message.BEGIN_ROWS, Message.READ_ROWS):
            folder, *others = map(Path, json.loads(messages.receive_bytes(connection, head.num_bytes)))
            self._steps.await_step(head.step)
            error = self._exchange(head.message, folder, others[0] if others else None)
            messages.send(connection, done, [_json(error)])
        else:
            self._send_rows(connection, rank, head)

    def add(self, connection: socket.socket, head: Head) -> None:
        """Take gradients of rows into the sums of their step."""
        share = self._share(head)
        width = share.arena.options.width
        check(head, 0 < head.num_items <= MOST_IDS)
        check(head, head.num_bytes == 16 + head.num_items * (8 + 4 * width))
        position, place = messages.receive_array(connection, 2, np.int64).tolist()
        ids = messages.receive_array(connection, head.num_items, np.int64)
        gradients = messages.receive_array(connection, head.num_items * width, np.float32)
        share.add(RowGradients(position, place, ids, gradients.reshape(-1, width)))
        with self._changing:
            self._num_pushed += 1
        self._steps.notify()

    def carry_out(self, decision: Update | None) -> None:
        """Move the rows by the sums of the step, or forget these; the same for all workers."""
        for share in self._shares:
            if decision is None:
                share.drop()
            else:
                share.apply(decision)
        self._num_pushed, self._num_expected = 0, {}

    def _exchange(self, message: int, folder: Path, previous: Path | None) -> str:
        """Begin to write rows into a folder, or read those that lie there; return what went wrong, in a line."""
        try:
            if message == Message.BEGIN_ROWS:
                begin(self._shares, folder, previous)
                self._written = self._writing.submit(write, self._shares, lambda: None)
            else:
                for share in self._shares:
                    share.files.read(folder)
        except (Stop, OSError) as error:
            return str(error)
        return ""

    def _sums_of_files(self) -> dict[str, Any]:
        """Return the sums of the files that were begun once all are written, or what went wrong; else nothing."""
        if self._written is None or not self._written.done():
            return {}
        try:
            return {"sums": self._written.result()}
        except (Stop, OSError) as error:
            return {"error": str(error)}

    def _take(self, options: list[TableOptions]) -> None:
        """Make this server's shares, once; all workers must have the same tables."""
        with self._changing:
            if self._options is None:
                place = self._share_number, self._num_shares, self._folder
                self._shares = [TableShare(each, *place) for each in options]
                self._options = options
            elif self._options != options:
                raise ValueError("workers have unlike tables")

    def _share(self, head: Head) -> TableShare:
        """Wait for the step of a message, and return the share that it is about."""
        check(head, 0 <= head.parameter < len(self._shares))
        self._steps.await_step(head.step)
        return self._shares[head.parameter]

    def _send_rows(self, connection: socket.socket, rank: int, head: Head) -> None:
        check(head, head.num_bytes == 8 * head.num_items <= 8 * MOST_IDS)
        ids = messages.receive_array(connection, head.num_items, np.int64)
        share = self._share(head)
        if head.message == Message.PREFETCH_ROWS:
            waiting = self._prefetched.setdefault(rank, [])
            check(head, len(waiting) < MOST_WAITING)
            waiting.append(_Prefetched(head.parameter, ids))
        messages.send(connection, Head(Message.DONE, head.parameter), [share.rows(ids).reshape(-1)])

    def _send_moved(self, connection: socket.socket, rank: int, head: Head) -> None:
        """Send those rows of a worker's earliest pull in advance that the step has moved since."""
        share, waiting = self._share(head), self._prefetched.get(rank, [])
        check(head, head.num_bytes == 0 and bool(waiting) and waiting[0].table == head.parameter)
        ids = waiting.pop(0).ids
        moved = share.moved(ids)
        rows = share.rows(ids[moved])
        done = Head(Message.DONE, head.parameter, num_items=len(moved))
        messages.send(connection, done, [moved, rows.reshape(-1)])

    def _finished(self, rank: int, head: Head) -> int | None:
        """Wait for all gradients of the step, and return the squares of their sums."""
        self._steps.await_step(head.step)
        with self._changing:
            self._num_expected[rank] = head.num_items
        self._steps.notify()
        self._steps.await_all(self._is_complete)
        return total_of([share.finish().squares for share in self._shares])

    def _is_complete(self) -> bool:
        expected = self._num_expected
        return len(expected) == self._num_workers and sum(expected.values()) == self._num_pushed


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
