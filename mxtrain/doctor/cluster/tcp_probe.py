"""Both ends of a measurement over TCP between two hosts: whether a port is reached, how soon, and how fast.

A listener is open for the time of the examination only, on the address that it is given, and answers nobody without the
examination's token. Owns the bytes on the wire: the token, then one byte back and forth, then as many as go through.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import socket
import statistics
import struct
import threading
import time
from typing import Any, Sequence

CONNECT_SECONDS, SILENT_SECONDS = 3.0, 5.0
PINGS = 20
BLOCK = bytes(1 << 18)
COUNT = struct.Struct(">Q")
ACCEPTED = b"+"
MOST_AT_ONCE = 64
BACKLOG = 128


class Listener:
    """Open ports at one address, until `close`: as many of `ports` as are free."""

    def __init__(self, address: str, ports: Sequence[int], token: str):
        self.ports: list[int] = []
        self.errors: dict[int, str] = {}
        self._token, self._sockets = token.encode(), []
        self._slots = threading.Semaphore(MOST_AT_ONCE)
        for port in ports:
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((address, port))
                listener.listen(BACKLOG)
            except OSError as error:
                listener.close()
                self.errors[port] = error.strerror or str(error)
                continue
            self._sockets.append(listener)
            self.ports.append(listener.getsockname()[1])
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        for listener in self._sockets:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
            listener.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            if not self._slots.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(SILENT_SECONDS)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if not hmac.compare_digest(_read(connection, len(self._token)), self._token):
                    return
                connection.sendall(ACCEPTED)
                for _ in range(PINGS):
                    connection.sendall(_read(connection, 1))
                connection.sendall(COUNT.pack(_count(connection)))
        except OSError:
            pass  # the other end says what it missed
        finally:
            self._slots.release()


def measure(address: str, port: int, token: str, seconds: float) -> dict[str, Any]:
    """Return `milliseconds` of a round trip and `bytes_per_second` to a listener; or `problem`, in a word or two.

    With no `seconds` the rate is left out.
    """
    try:
        with socket.create_connection((address, port), timeout=CONNECT_SECONDS) as connection:
            connection.settimeout(SILENT_SECONDS + seconds)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(token.encode())
            if _read(connection, len(ACCEPTED)) != ACCEPTED:
                return {"problem": "another program answers there"}
            measured: dict[str, Any] = {"milliseconds": 1e3 * statistics.median(_pings(connection))}
            if seconds:
                measured["bytes_per_second"] = _rate(connection, seconds)
            return measured
    except OSError as error:
        return {"problem": _in_words(error)}


def _in_words(error: OSError) -> str:
    if isinstance(error, socket.timeout):
        return "dropped"  # as firewalls do
    return {
        errno.ECONNREFUSED: "refused",
        errno.EHOSTUNREACH: "no route",
        errno.ENETUNREACH: "no route",
        errno.EACCES: "forbidden here",
        errno.ECONNRESET: "cut off",
    }.get(error.errno or 0, error.strerror or str(error))


def _pings(connection: socket.socket) -> list[float]:
    times = []
    for _ in range(PINGS):
        started = time.perf_counter()
        connection.sendall(b".")
        _read(connection, 1)
        times.append(time.perf_counter() - started)
    return times


def _rate(connection: socket.socket, seconds: float) -> float:
    """Return the bytes a second that arrive at the other end."""
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        connection.sendall(BLOCK)
    connection.shutdown(socket.SHUT_WR)
    (arrived,) = COUNT.unpack(_read(connection, COUNT.size))
    rate: float = arrived / (time.perf_counter() - started)
    return rate


def _count(connection: socket.socket) -> int:
    buffer, found = bytearray(len(BLOCK)), 0
    while True:
        num_bytes = connection.recv_into(buffer)
        if not num_bytes:
            return found
        found += num_bytes


def _read(connection: socket.socket, num_bytes: int) -> bytes:
    """Return exactly so many bytes; an OSError where the other end closes before."""
    found = b""
    while len(found) < num_bytes:
        block = connection.recv(num_bytes - len(found))
        if not block:
            raise ConnectionResetError(errno.ECONNRESET, "closed by the other end")
        found += block
    return found
