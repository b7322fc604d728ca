"""Who has the secret reaches what is behind a gateway, and nobody else anything."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import ssl
import stat
import threading
import time
from typing import Callable

import pytest

from mxtrain.cluster import unix_sockets
from mxtrain.cluster.gateway import credentials
from mxtrain.cluster.gateway.handshake import CONTROL, HandshakeFailed, SecureConnection, connect
from mxtrain.cluster.gateway.process import MAX_UNAUTHENTICATED
from mxtrain.cluster.gateway.routes import NUMBERS
from tests.support.jobs.gateways import (
    DEADLINE_SECONDS,
    LOOPBACK,
    SECRET,
    Behind,
    behind,
    gateway,
    gateway_without_checks,
    relay,
)


def connection(port: int, target: str, text: str = SECRET, attempt: int = 0) -> SecureConnection:
    return connect(LOOPBACK, port, credentials.of_secret(text), target, attempt, DEADLINE_SECONDS)


def accepted(program: Behind, count: int = 1) -> socket.socket:
    """The newest of so many connections that came to the program."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(program.connections) < count:
        assert time.monotonic() < deadline, "nobody came"
        time.sleep(0.005)
    return program.connections[-1]


def read(connection: socket.socket, size: int) -> bytes:
    connection.settimeout(DEADLINE_SECONDS)
    blocks = []
    while size:
        blocks.append(connection.recv(min(size, 1 << 20)))
        assert blocks[-1], "closed"
        size -= len(blocks[-1])
    return b"".join(blocks)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_who_has_the_secret_reaches_what_is_behind_a_gateway() -> None:
    content = os.urandom(2_000_003)
    with behind() as program, gateway([program.number]) as (_, port):
        remote = connection(port, str(program.number))
        inside = accepted(program)
        inside.settimeout(DEADLINE_SECONDS)
        remote.socket.sendall(remote.cipher.encrypt(content))
        assert read(inside, len(content)) == content
        sender = threading.Thread(target=inside.sendall, args=[content])
        sender.start()
        answered = b""
        while len(answered) < len(content):
            answered += remote.cipher.decrypt(remote.socket.recv(1 << 20))
        sender.join(DEADLINE_SECONDS)
        assert answered == content
        remote.socket.close()
        assert inside.recv(1) == b"", "both ends of a stream end together"


def test_a_process_elsewhere_has_a_socket_here_for_this_user_alone() -> None:
    """ps-lite's connection to it goes through the gateway of that host; nobody on the way sees what is said."""
    seen: list[bytes] = []
    content = b"a gradient that nobody else has to know" * 9000
    with gateway_without_checks() as (accepted_here, port):
        number = random.SystemRandom().choice(NUMBERS)
        path = unix_sockets.FOLDER / str(number)
        with gateway([], [(number, LOOPBACK, relay(port, seen))]):
            wait_for(path.exists)
            with socket.socket(socket.AF_UNIX) as client:
                wait_for(lambda: client.connect_ex(str(path)) == 0)
                assert stat.S_IMODE(path.stat().st_mode) == 0o700
                client.settimeout(DEADLINE_SECONDS)
                client.sendall(content)
                wait_for(lambda: len(accepted_here) == 1)
                assert accepted_here[0].target == str(number)
                arrived = b""
                while len(arrived) < len(content):
                    arrived += accepted_here[0].cipher.decrypt(accepted_here[0].socket.recv(1 << 20))
                assert arrived == content
                accepted_here[0].socket.close()
                assert client.recv(1) == b""
        assert not path.exists()
    heard = b"".join(seen)
    assert len(heard) > len(content) and b"gradient" not in heard and str(number).encode() not in heard


@pytest.mark.parametrize(
    ("text", "attempt", "target", "reason"),
    [
        ("another secret of this length", 0, None, "CERTIFICATE"),
        (SECRET, 1, None, "this is attempt 0 of the job, not attempt 1"),
        (SECRET, 0, "4711", "no 4711 is behind this gateway"),
        (SECRET, 0, "../etc/passwd", "no ../etc/passwd is behind this gateway"),
        (SECRET, 0, CONTROL, "no control is behind this gateway"),  # which is the scheduler's alone
    ],
)
def test_all_others_are_refused_and_reach_nothing(
    text: str, attempt: int, target: str | None, reason: str
) -> None:
    with behind() as program, gateway([program.number]) as (_, port):
        with pytest.raises(HandshakeFailed, match=reason):
            connection(port, target or str(program.number), text, attempt)
        connection(port, str(program.number))  # nobody else's attempt is in the way of who belongs here
        accepted(program)
        assert len(program.connections) == 1


def test_a_stranger_with_a_certificate_of_his_own_is_refused_by_both_ends() -> None:
    """Not by the name in it, which is the same for all jobs, and not by its being valid."""
    strangers = credentials.of_secret(
        "a secret of this test alone"
    )  # credentials are kept by it, and these change
    strangers.client.verify_mode = ssl.CERT_NONE
    with behind() as program, gateway([program.number]) as (_, port):
        with pytest.raises((HandshakeFailed, OSError)):
            connect(LOOPBACK, port, strangers, str(program.number), 0, DEADLINE_SECONDS)
        assert program.connections == []
    strangers.server.verify_mode = ssl.CERT_NONE
    with gateway_without_checks(strangers) as (accepted_here, port):
        with pytest.raises(HandshakeFailed, match="CERTIFICATE"):
            connection(port, CONTROL)
        assert accepted_here == []


def test_a_recorded_session_played_again_reaches_nothing() -> None:
    seen: list[bytes] = []
    with behind() as program, gateway([program.number]) as (_, port):
        remote = connection(relay(port, seen, "there"), str(program.number))
        remote.socket.sendall(remote.cipher.encrypt(b"a step"))
        assert read(accepted(program), 6) == b"a step"
        for blocks in (seen, [b"".join(seen)], [b"".join(seen)] * 3):
            with socket.create_connection((LOOPBACK, port)) as again, contextlib.suppress(OSError):
                again.settimeout(DEADLINE_SECONDS)
                for block in list(blocks):
                    again.sendall(block)
                while again.recv(1 << 16):
                    pass
        assert len(program.connections) == 1


def test_floods_slow_and_silent_strangers_hold_up_nobody() -> None:
    rng = random.Random(0)
    with behind() as program, gateway([program.number]) as (
        process,
        port,
    ), contextlib.ExitStack() as strangers:
        for _ in range(2 * MAX_UNAUTHENTICATED):
            silent = strangers.enter_context(socket.create_connection((LOOPBACK, port)))
            silent.sendall(rng.choice([b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n", rng.randbytes(300)]))
        started = time.monotonic()
        remote = connection(port, str(program.number))
        assert time.monotonic() - started < 3
        remote.socket.sendall(remote.cipher.encrypt(b"a step"))
        assert read(accepted(program), 6) == b"a step"
        assert len(program.connections) == 1 and not process.end()


def test_a_frame_that_was_changed_on_the_way_ends_its_stream_alone() -> None:
    with behind() as program, gateway([program.number]) as (_, port):
        first, second = (connection(port, str(program.number)) for _ in range(2))
        accepted(program, 2)
        frame = bytearray(first.cipher.encrypt(b"a step"))
        frame[-1] ^= 1
        first.socket.sendall(frame)
        first.socket.settimeout(DEADLINE_SECONDS)
        assert first.socket.recv(1) == b""
        second.socket.sendall(second.cipher.encrypt(b"a step"))
        arrived = [connection.recv(6) for connection in program.connections]
        assert sorted(arrived) == [b"", b"a step"]


def test_the_end_of_a_gateway_is_told_and_ends_its_streams() -> None:
    with behind() as program, gateway([program.number]) as (process, port):
        remote = connection(port, str(program.number))
        accepted(program)
        assert process.end() == ""
        os.kill(process.pid, signal.SIGKILL)
        assert process.end(DEADLINE_SECONDS) == (
            f"the gateway of its host, process {process.pid}, was killed by SIGKILL"
        )
        remote.socket.settimeout(DEADLINE_SECONDS)
        assert remote.socket.recv(1) == b""
