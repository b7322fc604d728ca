"""Messages about rows that no worker sends end a server with an error, before memory is taken or a row has moved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain.config import Optim
from mxtrain.core.errors import RestartMe
from mxtrain.kvstore.owners import layout as layouts
from mxtrain.kvstore.owners import messages, server
from mxtrain.kvstore.owners.messages import PUSHES, REQUESTS, Head, Message
from mxtrain.tables.options import TableOptions, to_json
from tests.support.jobs.allreduce_jobs import numbers_of
from tests.support.jobs.owner_jobs import Threads
from tests.support.jobs.owner_messages import ends_of, integers, message

TABLES = [TableOptions("users", 3, seed=1), TableOptions("words", 2, seed=1)]
HUGE, MOST = 1 << 62, (1 << 32) - 1


def pushed(ids: bytes, gradients: int, position: int = 0) -> bytes:
    return integers(position, 0) + ids + bytes(4 * gradients)


WRONG: dict[str, tuple[bytes, bytes]] = {
    "an unknown table": (REQUESTS, message(Head(Message.PULL_ROWS, 2, 0, 1), integers(7))),
    "a table below the first": (REQUESTS, message(Head(Message.PULL_ROWS, -1, 0, 1), integers(7))),
    "a step far ahead": (REQUESTS, message(Head(Message.PULL_ROWS, 0, HUGE, 1), integers(7))),
    "a step that is over": (PUSHES, message(Head(Message.PUSH_ROWS, 0, -5, 1), pushed(integers(7), 3))),
    "more ids than bytes": (REQUESTS, message(Head(Message.PULL_ROWS, 0, 0, 2), integers(7))),
    "too many ids": (REQUESTS, message(Head(Message.PULL_ROWS, 0, 0, MOST), num_bytes=8 * MOST)),
    "rows that were not asked for": (REQUESTS, message(Head(Message.MOVED_ROWS, 0, 0))),
    "a push of no row": (PUSHES, message(Head(Message.PUSH_ROWS, 0, 0, 0), pushed(b"", 0))),
    "a push of another width": (PUSHES, message(Head(Message.PUSH_ROWS, 0, 0, 1), pushed(integers(7), 2))),
    "a push into an unknown table": (
        PUSHES,
        message(Head(Message.PUSH_ROWS, 9, 0, 1), pushed(integers(7), 3)),
    ),
    "a push of too many": (PUSHES, message(Head(Message.PUSH_ROWS, 0, 0, MOST), num_bytes=16 + 20 * MOST)),
    "a push among requests": (REQUESTS, message(Head(Message.PUSH_ROWS, 0, 0, 1), pushed(integers(7), 3))),
    "a pull among pushes": (PUSHES, message(Head(Message.PULL_ROWS, 0, 0, 1), integers(7))),
    "an end with a body": (REQUESTS, message(Head(Message.FINISH_ROWS, -1, 0, 0), b"12345678")),
    "other tables": (REQUESTS, message(Head(Message.TABLES), to_json(TABLES[:1]))),
    "tables that are none": (REQUESTS, message(Head(Message.TABLES), b'[{"name": "users"}]')),
    "no text": (REQUESTS, message(Head(Message.TABLES), b"\xff\xfe")),
    "tables that are too long": (REQUESTS, message(Head(Message.TABLES), num_bytes=HUGE)),
    "a folder that is none": (REQUESTS, message(Head(Message.BEGIN_ROWS, -1, 0), b"[]")),
    "a folder that is no text": (REQUESTS, message(Head(Message.READ_ROWS, -1, 0), b"[1]")),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_message_about_rows_ends_the_server(name: str) -> None:
    (number,), threads = numbers_of("a"), Threads()
    threads.start("server", server.serve, number, 0, 1, 1, 20.0)
    ends = ends_of(number)
    for head, body in (
        (Message.LAYOUT, layouts.of_parameters([], Optim(optimizer="sgd")).to_json()),
        (Message.TABLES, to_json(TABLES)),
    ):
        ends[REQUESTS].sendall(message(Head(head), body))
        assert messages.receive_head(ends[REQUESTS]).message == Message.DONE
    purpose, content = WRONG[name]
    ends[purpose].sendall(content)
    threads.join()
    error: Any = threads.results["server"]
    assert isinstance(error, Exception) and not isinstance(error, (RestartMe, MemoryError)), error


def test_ids_that_come_twice_in_a_push_are_added_like_those_of_two() -> None:
    """A worker sends each id once; what another sends moves the row by the sum, and by nothing else."""
    from mxtrain.kvstore.tables.local import LocalTables
    from mxtrain.kvstore.tables.owner import RowGradients
    from mxtrain.optim.update import Update

    gradients = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = []
    for parts in ([slice(0, 2)], [slice(0, 1), slice(1, 2)]):
        owners = LocalTables(TABLES)
        for place, part in enumerate(parts):
            owners.push(0, RowGradients(0, place, np.array([5, 5])[part], gradients[part]))
        owners.finish()
        owners.apply(Update(0.1, 1.0))
        found.append(owners.pull(0, np.array([5])).wait())
    assert np.array_equal(*found)
