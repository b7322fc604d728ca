"""The bytes of a control line, over real sockets."""

from __future__ import annotations

import contextlib
import select
import socket
from typing import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxtrain.cluster.channel import HEADER, MAGIC, MAX_JSON_BYTES, Channel, Closed, Malformed, Message

MAX_RAW = 1 << 20
TEXT = b'{"kind": "sum", "number": 3}'
MESSAGE = ({"kind": "sum", "number": 3}, b"\x00\xff{")
FRAME = HEADER.pack(MAGIC, len(TEXT), 3) + TEXT + MESSAGE[1]


@contextlib.contextmanager
def connected(max_raw_bytes: int = MAX_RAW) -> Iterator[tuple[socket.socket, Channel]]:
    """A plain socket, and a line at its other end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        plain = socket.create_connection(listener.getsockname(), timeout=5)
        line = Channel(listener.accept()[0], max_raw_bytes)
    with plain:
        yield plain, line
    line.close()


def next_messages(line: Channel) -> list[Message]:
    assert select.select([line], [], [], 5)[0]
    return line.receive()


def test_messages_come_whole_however_they_are_cut() -> None:
    with connected() as (plain, line):
        found = []
        for index in range(2 * len(FRAME)):
            plain.sendall((FRAME * 2)[index : index + 1])
            found += next_messages(line)
        plain.sendall(FRAME * 5)
        while len(found) < 7:
            found += next_messages(line)
        assert found == [MESSAGE] * 7


def test_what_was_said_before_the_end_is_heard() -> None:
    with connected() as (plain, line):
        plain.sendall(FRAME)
        plain.close()
        assert next_messages(line) == [MESSAGE]
        with pytest.raises(Closed):
            next_messages(line)


@pytest.mark.parametrize(
    "said",
    [
        b"G",
        HEADER.pack(MAGIC, MAX_JSON_BYTES + 1, 0),
        HEADER.pack(MAGIC, 2, MAX_RAW + 1),
        HEADER.pack(MAGIC, 2, 0) + b"{}",
        HEADER.pack(MAGIC, 2, 0) + b"[]",
        HEADER.pack(MAGIC, 4, 0) + b"\xff\xfe{}",
        HEADER.pack(MAGIC, MAX_JSON_BYTES, 0) + b"[" * MAX_JSON_BYTES,
    ],
)
def test_a_wrong_beginning_is_known_at_once(said: bytes) -> None:
    with connected() as (plain, line):
        plain.sendall(said)
        with pytest.raises(Malformed):
            while True:
                assert next_messages(line) == []


@given(st.binary(min_size=1, max_size=40), st.sampled_from([b"", MAGIC, FRAME]))
def test_noise_is_malformed_or_incomplete(noise: bytes, before: bytes) -> None:
    with connected(max_raw_bytes=0) as (plain, line):
        plain.sendall(before + noise)
        plain.close()
        with pytest.raises((Malformed, Closed)):
            while True:
                next_messages(line)


def test_nothing_waits_for_a_reader() -> None:
    large = bytes(range(256)) * (MAX_RAW // 256)
    with connected() as (plain, line):
        for _ in range(16):
            line.send({"kind": "total"}, large)
        assert line.unsent
        arrived = b""
        frame_bytes = HEADER.size + len(b'{"kind": "total"}') + len(large)
        while len(arrived) < 16 * frame_bytes:
            line.flush()
            arrived += plain.recv(1 << 20)
        assert not line.unsent
        assert all(
            arrived[(n + 1) * frame_bytes - len(large) : (n + 1) * frame_bytes] == large for n in range(16)
        )


def test_sending_to_the_dead_is_closed() -> None:
    with connected() as (plain, line):
        plain.close()
        with pytest.raises(Closed):
            for _ in range(1000):
                line.send({"kind": "beat"}, bytes(1000))
                select.select([line], [], [], 0.01)
