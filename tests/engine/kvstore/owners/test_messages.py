"""Messages that no worker sends end a server with an error, and no other wait."""

from __future__ import annotations

from typing import Any

import pytest

from mxtrain.config import Optim
from mxtrain.core.errors import RestartMe
from mxtrain.kvstore import connections
from mxtrain.kvstore.owners import layout as layouts
from mxtrain.kvstore.owners import messages, server
from mxtrain.kvstore.owners.messages import PUSHES, REQUESTS, WATCH, Head, Message
from mxtrain.optim.sums.grid import BLOCK
from mxtrain.runtime import mx
from tests.support.jobs.allreduce_jobs import numbers_of
from tests.support.jobs.owner_jobs import Threads
from tests.support.jobs.owner_messages import ends_of, integers, message

SIZES = [BLOCK + 5, 3]
HUGE = 1 << 62


def layout_text() -> bytes:
    parameters = [mx.gluon.Parameter(f"p{index}", shape=(size,)) for index, size in enumerate(SIZES)]
    return layouts.of_parameters(parameters, Optim(optimizer="sgd")).to_json()


WEIGHTS = bytes(4 * SIZES[0])
WRONG: dict[str, tuple[bytes, bytes]] = {
    "noise": (REQUESTS, bytes(range(256)) * 4),
    "noise for a push": (PUSHES, bytes(range(256)) * 4),
    "an unknown message": (REQUESTS, message(Head(200, 0))),
    "an answer": (REQUESTS, message(Head(Message.DONE, 0))),
    "a request among pushes": (PUSHES, message(Head(Message.PULL, 0, 0))),
    "a push among requests": (REQUESTS, message(Head(Message.PUSH, 0, 0), WEIGHTS)),
    "another layout": (REQUESTS, message(Head(Message.LAYOUT), layout_text().replace(b"sgd", b"nag"))),
    "no layout": (REQUESTS, message(Head(Message.LAYOUT), b"{}")),
    "a layout that is too long": (REQUESTS, message(Head(Message.LAYOUT), num_bytes=HUGE)),
    "weights of another size": (REQUESTS, message(Head(Message.PUT, 0), WEIGHTS + bytes(4))),
    "weights of an unknown parameter": (REQUESTS, message(Head(Message.PUT, 2), WEIGHTS)),
    "a step far ahead": (REQUESTS, message(Head(Message.PULL, step=HUGE))),
    "a step that is over": (PUSHES, message(Head(Message.PUSH, 0, -5), WEIGHTS)),
    "a pull of an unknown parameter": (REQUESTS, message(Head(Message.PULL, -1, 0, 1), integers(7))),
    "a pull of too many": (REQUESTS, message(Head(Message.PULL, -1, 0, 1 << 31), num_bytes=HUGE)),
    "a push of another size": (PUSHES, message(Head(Message.PUSH, 0, 0), WEIGHTS[4:])),
    "too many wide blocks": (PUSHES, message(Head(Message.PUSH, 0, 0, 3), num_bytes=HUGE)),
    "an unknown wide block": (PUSHES, message(Head(Message.PUSH, 0, 0, 1), integers(2) + WEIGHTS)),
    "a wide block twice": (
        PUSHES,
        message(Head(Message.PUSH, 0, 0, 2), integers(1, 1) + bytes(80) + WEIGHTS),
    ),
    "no update": (REQUESTS, message(Head(Message.APPLY, -1, 0), bytes(8))),
    "a state that is too long": (REQUESTS, message(Head(Message.WRITE_STATE, 0, -1, 1), integers(HUGE))),
    "a state of another size": (
        REQUESTS,
        message(Head(Message.WRITE_STATE, 0, -1, 1), integers(1) + bytes(4)),
    ),
    "counts that are none": (REQUESTS, message(Head(Message.WRITE_COUNTS), b"[1]")),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_message_ends_the_server(name: str) -> None:
    (number,), threads = numbers_of("a"), Threads()
    threads.start("server", server.serve, number, 0, 1, 1, 20.0)
    ends = ends_of(number)
    ends[REQUESTS].sendall(message(Head(Message.LAYOUT), layout_text()))
    assert messages.receive_head(ends[REQUESTS]).message == Message.DONE
    purpose, content = WRONG[name]
    ends[purpose].sendall(content)
    threads.join()
    error: Any = threads.results["server"]
    assert isinstance(error, Exception) and not isinstance(error, RestartMe), error


def test_a_message_before_the_layout_ends_the_server() -> None:
    (number,), threads = numbers_of("a"), Threads()
    threads.start("server", server.serve, number, 0, 1, 1, 20.0)
    ends = ends_of(number)
    ends[PUSHES].sendall(message(Head(Message.PUSH, 0, 0), WEIGHTS))
    threads.join()
    assert isinstance(threads.results["server"], ValueError)


def test_half_a_message_is_nothing() -> None:
    (number,), threads = numbers_of("a"), Threads()
    threads.start("server", server.serve, number, 0, 1, 1, 20.0)
    ends = ends_of(number)
    ends[REQUESTS].sendall(message(Head(Message.LAYOUT), layout_text())[:-1])
    ends[PUSHES].sendall(b"\4")
    connections.end_for(ends[WATCH], "worker-7: gone")
    threads.join()
    error = threads.results["server"]
    assert isinstance(error, RestartMe) and str(error) == "worker-7: gone"
    assert connections.reason_of_end(ends[WATCH]) == "worker-7: gone"
