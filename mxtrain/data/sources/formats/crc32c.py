"""CRC-32C (Castagnoli), the checksum of TFRecord files; Python has only the other CRC-32.

A table step a byte would take 7 ms a picture in Python. Without its initial and final inversion a CRC is linear, and
leading zeros do not change it. So the bytes are arranged in rows of 64, all rows go through the table at once, and
pairs of rows are joined by the effect of 64, 128, 256 ... trailing zeros on a CRC.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]
_POLYNOMIAL = 0x82F63B78
_ROW = 64


def crc32c(data: bytes | memoryview) -> int:
    """Return the CRC-32C of the data."""
    if len(data) < 4:
        return _bytewise(data)
    num_rows = 1 << max(0, (len(data) - 1) // _ROW).bit_length()
    padded = np.zeros(num_rows * _ROW, np.uint8)
    padded[len(padded) - len(data) :] = np.frombuffer(data, np.uint8)
    start = len(padded) - len(data)
    padded[start : start + 4] ^= 0xFF  # the initial inversion
    table, crcs = _table(), np.zeros(num_rows, np.uint32)
    for column in np.ascontiguousarray(padded.reshape(num_rows, _ROW).T):
        crcs = table[(crcs ^ column) & 0xFF] ^ (crcs >> np.uint32(8))
    doubled = 0
    while len(crcs) > 1:
        crcs = _apply(_after_zeros(doubled), crcs[0::2]) ^ crcs[1::2]
        doubled += 1
    return int(crcs[0]) ^ 0xFFFFFFFF


def _bytewise(data: bytes | memoryview) -> int:
    table, crc = _table(), 0xFFFFFFFF
    for byte in bytes(data):
        crc = int(table[(crc ^ byte) & 0xFF]) ^ crc >> 8
    return crc ^ 0xFFFFFFFF


@functools.lru_cache(maxsize=None)
def _table() -> Words:
    crcs: Any = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        crcs = np.where(crcs & 1, crcs >> 1 ^ np.uint32(_POLYNOMIAL), crcs >> 1)
    return np.asarray(crcs, np.uint32)


@functools.lru_cache(maxsize=None)
def _after_zeros(doubled: int) -> Words:
    """Return the effect of `_ROW << doubled` zero bytes on a CRC, as a table (4, 256) for its four bytes."""
    single = np.arange(256, dtype=np.uint32)
    crcs: Words = np.stack([single << np.uint32(8 * byte) for byte in range(4)])
    if doubled:
        half = _after_zeros(doubled - 1)
        return _apply(half, _apply(half, crcs))
    for _ in range(_ROW):
        crcs = np.asarray(_table()[crcs & 0xFF] ^ (crcs >> np.uint32(8)), np.uint32)
    return crcs


def _apply(tables: Words, crcs: Words) -> Words:
    parts = [tables[byte][crcs >> np.uint32(8 * byte) & 0xFF] for byte in range(4)]
    return np.asarray(parts[0] ^ parts[1] ^ parts[2] ^ parts[3], np.uint32)
