"""A control line: messages with bounded lengths over a TCP connection that never blocks.

A message is one JSON object and raw bytes behind it. Owns the bytes only; what messages mean is said in `member`
and `watch`, which are the two ends.
"""

from __future__ import annotations

import json
import select
import socket
import struct
from typing import Any, Dict, Tuple

HEADER = struct.Struct(">4sII")  # MAGIC, bytes of JSON, raw bytes
MAGIC = b"mxt1"
MAX_JSON_BYTES = 1 << 20
MAX_RAW_BYTES = 64 << 20
READ_BYTES = 1 << 20

Message = Tuple[Dict[str, Any], bytes]


class Closed(Exception):
    """The other end has gone, or the network said so."""


class Malformed(Exception):
    """What arrived is no message of a control line."""


class Channel:
    """One end; `max_raw_bytes` is what a message may carry behind its JSON."""

    def __init__(self, connection: socket.socket, max_raw_bytes: int = 0):
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.max_raw_bytes = max_raw_bytes
        self._connection = connection
        self._arrived = bytearray()
        self._unsent = bytearray()

    def fileno(self) -> int:
        return self._connection.fileno()

    @property
    def unsent(self) -> bool:
        """Whether `flush` is due when the network takes more."""
        return bool(self._unsent)

    def wait(self, seconds: float) -> bool:
        """Whether there is something to read within so many seconds."""
        return self._poll(select.POLLIN, seconds)

    def wait_for_room(self, seconds: float) -> bool:
        """Whether the network takes more within so many seconds."""
        return self._poll(select.POLLOUT, seconds)

    def send(self, message: dict[str, Any], raw: bytes = b"") -> None:
        """Queue a message, and hand over what the network takes at once."""
        text = json.dumps(message).encode()
        self._unsent += HEADER.pack(MAGIC, len(text), len(raw)) + text + raw
        self.flush()

    def flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._connection.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError as error:
            raise Closed(str(error)) from None

    def receive(self) -> list[Message]:
        """The messages that are complete; call it when there is something to read."""
        try:
            block = self._connection.recv(READ_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            raise Closed(str(error)) from None
        if not block:
            raise Closed("closed by the other end")
        self._arrived += block
        messages: list[Message] = []
        while self._first_is_complete():
            messages.append(self._take_first())
        return messages

    def close(self) -> None:
        self._connection.close()

    def _poll(self, event: int, seconds: float) -> bool:
        poll = select.poll()  # select() knows no handle above 1023
        poll.register(self._connection, event)
        return bool(poll.poll(max(0.0, seconds) * 1000))

    def _first_is_complete(self) -> bool:
        """Judges a header as soon as it is there, so that nothing is stored for a liar."""
        start = bytes(self._arrived[: len(MAGIC)])
        if not MAGIC.startswith(start):
            raise Malformed("not a control line of mxtrain")
        if len(self._arrived) < HEADER.size:
            return False
        _, json_bytes, raw_bytes = HEADER.unpack_from(self._arrived)
        if json_bytes > MAX_JSON_BYTES or raw_bytes > self.max_raw_bytes:
            raise Malformed(f"a message of {json_bytes} + {raw_bytes} bytes")
        return bool(len(self._arrived) >= HEADER.size + json_bytes + raw_bytes)

    def _take_first(self) -> Message:
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
            raise Malformed("a message of no kind")
        return message, raw
