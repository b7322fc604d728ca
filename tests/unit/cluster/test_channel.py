"""Framing of the control channel, over real sockets."""

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
TEXT = b'{"kind": "sum", "sequence": 3}'
MESSAGE = ({"kind": "sum", "sequence": 3}, b"\x00\xff{")
FRAME = HEADER.pack(MAGIC, len(TEXT), 3) + TEXT + MESSAGE[1]


@contextlib.contextmanager
def connected(max_raw_bytes: int = MAX_RAW) -> Iterator[tuple[socket.socket, Channel]]:
    """A plain socket, and a channel at its other end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        plain = socket.create_connection(listener.getsockname(), timeout=5)
        channel = Channel(listener.accept()[0], max_raw_bytes)
    with plain:
        yield plain, channel
    channel.close()


def next_messages(channel: Channel) -> list[Message]:
    assert select.select([channel], [], [], 5)[0]
    return channel.receive()


def test_messages_arrive_complete_however_they_are_cut() -> None:
    with connected() as (plain, channel):
        found = []
        for index in range(2 * len(FRAME)):
            plain.sendall((FRAME * 2)[index : index + 1])
            found += next_messages(channel)
        plain.sendall(FRAME * 5)
        while len(found) < 7:
            found += next_messages(channel)
        assert found == [MESSAGE] * 7


def test_messages_sent_before_the_end_are_received() -> None:
    with connected() as (plain, channel):
        plain.sendall(FRAME)
        plain.close()
        assert next_messages(channel) == [MESSAGE]
        with pytest.raises(Closed):
            next_messages(channel)


@pytest.mark.parametrize(
    "sent",
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
def test_a_wrong_header_or_json_is_refused_at_once(sent: bytes) -> None:
    with connected() as (plain, channel):
        plain.sendall(sent)
        with pytest.raises(Malformed):
            while True:
                assert next_messages(channel) == []


@given(st.binary(min_size=1, max_size=40), st.sampled_from([b"", MAGIC, FRAME]))
def test_noise_is_malformed_or_incomplete(noise: bytes, before: bytes) -> None:
    with connected(max_raw_bytes=0) as (plain, channel):
        plain.sendall(before + noise)
        plain.close()
        with pytest.raises((Malformed, Closed)):
            while True:
                next_messages(channel)


def test_sending_never_waits_for_the_reader() -> None:
    large = bytes(range(256)) * (MAX_RAW // 256)
    with connected() as (plain, channel):
        for _ in range(16):
            channel.send({"kind": "total"}, large)
        assert channel.has_unsent
        arrived = b""
        frame_bytes = HEADER.size + len(b'{"kind": "total"}') + len(large)
        while len(arrived) < 16 * frame_bytes:
            channel.flush()
            arrived += plain.recv(1 << 20)
        assert not channel.has_unsent
        assert all(
            arrived[(n + 1) * frame_bytes - len(large) : (n + 1) * frame_bytes] == large for n in range(16)
        )


def test_sending_to_a_closed_end_raises_closed() -> None:
    with connected() as (plain, channel):
        plain.close()
        with pytest.raises(Closed):
            for _ in range(1000):
                channel.send({"kind": "heartbeat"}, bytes(1000))
                select.select([channel], [], [], 0.01)
