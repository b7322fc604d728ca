"""The connection between a worker and a server that carries one line: how the side that ends it has ended.

Whoever waits for the other side learns of its death by it at once, whatever is still unread elsewhere. Who ends because
a third one has died says so, and the other side is to name that one.
"""

from __future__ import annotations

import contextlib
import socket

PEACE = "."
MOST_BYTES = 4096


def end(connection: socket.socket, reason: str = PEACE) -> None:
    """Say that this side ends, in peace or for this `reason`."""
    with contextlib.suppress(OSError):
        connection.sendall(reason.encode()[: MOST_BYTES - 1] + b"\n")
        connection.shutdown(socket.SHUT_WR)


def outcome(connection: socket.socket) -> str:
    """Return what the other side has said, once it has ended: `PEACE`, a reason, or nothing."""
    said = b""
    with contextlib.suppress(OSError):
        while not said.endswith(b"\n") and len(said) < MOST_BYTES:
            part = connection.recv(MOST_BYTES)
            if not part:
                return ""
            said += part
    return said.decode(errors="replace").strip()
