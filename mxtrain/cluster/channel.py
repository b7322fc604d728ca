"""Control channel: messages of bounded length over a connection that never blocks, and its timeouts.

A message is one JSON object followed by raw bytes; between hosts they travel encrypted (`gateway/frames.py`). Owns the
framing only; the meaning of the messages belongs to the two ends, `agent.py` and `coordinator.py`.
"""

from __future__ import annotations

import dataclasses
import json
import select
import socket
import struct
from typing import TYPE_CHECKING, Any, Dict, Tuple

if TYPE_CHECKING:
    from mxtrain.cluster.gateway.frames import FrameCipher

HEADER = struct.Struct(">4sII")  # MAGIC, bytes of JSON, raw bytes
MAGIC = b"mxt1"
MAX_JSON_BYTES = 1 << 20
MAX_RAW_BYTES = 8 << 20  # the scheduler has one such message of each worker in memory
READ_BYTES = 1 << 20

Message = Tuple[Dict[str, Any], bytes]


class Closed(Exception):
    """The other end has closed the connection, or the network has."""


class Malformed(Exception):
    """The bytes that arrived are no message of a control channel."""


@dataclasses.dataclass(frozen=True)
class Timeouts:
    """Limits in seconds: until all processes have come, without a heartbeat, without progress."""

    start: float
    silence: float
    stall: float

    @property
    def heartbeat(self) -> float:
        """Seconds between two heartbeats."""
        return min(1.0, self.silence / 5, self.stall / 5)


class Channel:
    """One end of a connection; accepts up to `max_raw_bytes` behind a message's JSON."""

    def __init__(self, connection: socket.socket, max_raw_bytes: int = 0, cipher: FrameCipher | None = None):
        connection.setblocking(False)
        if connection.family == socket.AF_INET:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.max_raw_bytes = max_raw_bytes
        self._cipher = cipher
        self._connection = connection
        self._arrived = bytearray()
        self._unsent = bytearray()

    def fileno(self) -> int:
        return self._connection.fileno()

    @property
    def has_unsent(self) -> bool:
        """True while a message waits for the network; `flush` sends more of it."""
        return bool(self._unsent)

    def wait_readable(self, seconds: float) -> bool:
        """Wait up to `seconds` for something to read; return whether there is."""
        return self._poll(select.POLLIN, seconds)

    def wait_writable(self, seconds: float) -> bool:
        """Wait up to `seconds` until the network takes more; return whether it does."""
        return self._poll(select.POLLOUT, seconds)

    def send(self, message: dict[str, Any], raw: bytes = b"") -> None:
        """Queue a message, and send as much as the network takes at once."""
        text = json.dumps(message).encode()
        content = HEADER.pack(MAGIC, len(text), len(raw)) + text + raw
        self._unsent += content if self._cipher is None else self._cipher.encrypt(content)
        self.flush()

    def flush(self) -> None:
        """Send as much of the queued messages as the network takes; raises Closed."""
        try:
            while self._unsent:
                del self._unsent[: self._connection.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError as error:
            raise Closed(str(error)) from None

    def receive(self) -> list[Message]:
        """Return the messages that are complete; raises Closed or Malformed."""
        try:
            block = self._connection.recv(READ_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            raise Closed(str(error)) from None
        if not block:
            raise Closed("closed by the other end")
        self._arrived += block if self._cipher is None else self._cipher.decrypt(block)
        messages: list[Message] = []
        while self._has_complete_message():
            messages.append(self._pop_message())
        return messages

    def close(self) -> None:
        self._connection.close()

    def _poll(self, event: int, seconds: float) -> bool:
        poll = select.poll()  # select() refuses handles above 1023
        poll.register(self._connection, event)
        return bool(poll.poll(max(0.0, seconds) * 1000))

    def _has_complete_message(self) -> bool:
        """Check the header as soon as it is there, so that nothing is stored for a sender of garbage."""
        start = bytes(self._arrived[: len(MAGIC)])
        if not MAGIC.startswith(start):
            raise Malformed("not a control channel of mxtrain")
        if len(self._arrived) < HEADER.size:
            return False
        _, json_bytes, raw_bytes = HEADER.unpack_from(self._arrived)
        if json_bytes > MAX_JSON_BYTES or raw_bytes > self.max_raw_bytes:
            raise Malformed(f"a message of {json_bytes} + {raw_bytes} bytes")
        return bool(len(self._arrived) >= HEADER.size + json_bytes + raw_bytes)

    def _pop_message(self) -> Message:
        _, json_bytes, raw_bytes = HEADER.unpack_from(self._arrived)
        raw_begin = HEADER.size + json_bytes
        text = bytes(self._arrived[HEADER.size : raw_begin])
        raw = bytes(self._arrived[raw_begin : raw_begin + raw_bytes])
        del self._arrived[: raw_begin + raw_bytes]
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            raise Malformed("a message that is not JSON") from None
        if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
            raise Malformed("a message without a kind")
        return message, raw
