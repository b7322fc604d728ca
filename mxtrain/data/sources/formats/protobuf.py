"""A parser of protocol-buffer fields: enough for the two messages that sources hold."""

from __future__ import annotations

from typing import Iterator, Union

from mxtrain.data.sources.item import BadItem

Value = Union[int, memoryview]


def fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """Yield (number, value) of each field, fixed-size numbers as their bytes; BadItem for malformed bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        value: Value
        if wire == 0:
            value, at = _varint(message, at)
        else:
            if wire == 2:
                num_bytes, at = _varint(message, at)
            elif wire in (1, 5):
                num_bytes = 8 if wire == 1 else 4
            else:
                raise BadItem(f"its field {number} has the unknown wire type {wire}")
            value, at = message[at : at + num_bytes], at + num_bytes
            if at > len(message):
                raise BadItem(f"it ends in the middle of field {number}")
        yield number, value


def varints(packed: memoryview) -> Iterator[int]:
    """Yield the numbers of a packed repeated field."""
    at = 0
    while at < len(packed):
        value, at = _varint(packed, at)
        yield value


def signed(value: int) -> int:
    """Return the int32 or int64 that a varint stands for."""
    return value - (1 << 64) if value >= 1 << 63 else value


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise BadItem("it ends in the middle of a number")
        byte, at = data[at], at + 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (1 << 64) - 1, at
    raise BadItem("a number in it does not end")
