"""Encrypted frames: what travels between two gateways, encrypted and authenticated by AES-256-GCM.

A frame is the length of its encrypted part, four bytes that are authenticated too, and that part. Each direction has a
key of its own and counts its frames, so none can be changed, left out, repeated or sent back. Frames and not TLS's
records: those hold 16 KB at most, and Python carries 1.0 GB a second in them, where it carries 2.4 in frames of 256 KB.
"""

from __future__ import annotations

import os
import struct

from mxtrain.cluster.channel import Malformed

FRAME_BYTES = 1 << 18  # that a frame carries at most
HEADER = struct.Struct(">I")
TAG_BYTES = 16
KEY_BYTES = 32


class FrameCipher:
    """One end of an encrypted connection. Its two directions may be used by two threads."""

    def __init__(self, outgoing_key: bytes, incoming_key: bytes):
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._outgoing, self._incoming = AESGCM(outgoing_key), AESGCM(incoming_key)
        self._num_outgoing = self._num_incoming = 0
        self._arrived = bytearray()

    def encrypt(self, content: bytes | bytearray | memoryview) -> bytes:
        """Return the frames that carry `content`."""
        view = memoryview(content)
        pieces = (view[start : start + FRAME_BYTES] for start in range(0, len(view), FRAME_BYTES))
        return b"".join(part for piece in pieces for part in self.encrypt_frame(piece))

    def encrypt_frame(self, piece: bytes | memoryview) -> tuple[bytes, bytes]:
        """Return header and encrypted part of the frame that carries `piece`, of FRAME_BYTES at most."""
        header = HEADER.pack(len(piece) + TAG_BYTES)
        self._num_outgoing += 1
        return header, self._outgoing.encrypt(self._num_outgoing.to_bytes(12, "big"), piece, header)

    def decrypt(self, block: bytes) -> bytes:
        """Return what the frames carry that are complete with `block`; Malformed if one is not the other end's next."""
        self._arrived += block
        contents = []
        while len(self._arrived) >= HEADER.size:
            end = HEADER.size + encrypted_size(self._arrived[: HEADER.size])
            if len(self._arrived) < end:
                break
            contents.append(self.decrypt_frame(bytes(self._arrived[HEADER.size : end])))
            del self._arrived[:end]
        return b"".join(contents)

    def decrypt_frame(self, encrypted: bytes | memoryview) -> bytes:
        """Return what the encrypted part of a frame carries; Malformed if it is not the other end's next."""
        from cryptography.exceptions import InvalidTag

        self._num_incoming += 1
        nonce, header = self._num_incoming.to_bytes(12, "big"), HEADER.pack(len(encrypted))
        try:
            return self._incoming.decrypt(nonce, encrypted, header)
        except InvalidTag:
            raise Malformed("a frame that is not the other end's next") from None


def encrypted_size(header: bytes | bytearray | memoryview) -> int:
    """Return the bytes that follow a frame's header; Malformed if they are too many or too few."""
    (size,) = HEADER.unpack(header)
    if not TAG_BYTES < size <= FRAME_BYTES + TAG_BYTES:
        raise Malformed(f"a frame of {size} bytes")
    return int(size)


def new_key() -> bytes:
    """Return a key for one direction of one connection."""
    return os.urandom(KEY_BYTES)
