"""The heads of all records, without their payloads, and the .idx: the `.heads` beside a `.rec` in a store.

    first line   `# of the .idx `, then its CRC-32, as in a .sources.tsv
    then         u64 length of the .rec | u32 length of the .idx | the .idx
    then         of each record, in the order of the .idx: u32 length of its data | its header | its further labels

Labels, keys and checksums of all records are wanted before the first step; here they are one small file, where the
.rec in a store would have to be read as a whole. Owns this file's format. Local files have none: their heads are read.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Callable

import numpy as np

from mxtrain.core import regular_files
from mxtrain.data.records import recordio, source_names
from mxtrain.data.records.recordio import HEADER, BadRecord, Ints

SUFFIX = ".heads"
_LENGTH, _LENGTHS = struct.Struct("<I"), struct.Struct("<QI")


class Heads:
    """The heads by position, and the .idx that they are of."""

    def __init__(self, index: bytes, content: bytes, starts: Ints):
        self.index = index
        self._content = memoryview(content)
        self._starts = starts  # with the end of the last one

    def of(self, position: int) -> tuple[memoryview, int]:
        """Return the first bytes of a record's data, header and labels, and the length of all of it."""
        start, end = int(self._starts[position]), int(self._starts[position + 1])
        length = _LENGTH.unpack_from(self._content, start)[0]
        return self._content[start + _LENGTH.size : end], length

    def has_checksums(self) -> bool:
        """Return whether the first record or the last has a checksum."""
        return any(recordio.parse_header(self.of(at)[0]).has_tag for at in (0, len(self._starts) - 2))


def read(rec: Path, num_bytes: int) -> Heads | None:
    """Return the heads beside a .rec, if they are there and were made of a .rec of so many bytes."""
    path = rec.with_suffix(SUFFIX)
    return parse(regular_files.read(path), num_bytes) if path.exists() else None


def parse(content: bytes, num_bytes: int) -> Heads | None:
    """Return the heads in a file; None where it is damaged, or of another .rec than one of so many bytes."""
    start = content.find(b"\n") + 1
    if len(content) < start + _LENGTHS.size:
        return None
    length, of_index = _LENGTHS.unpack_from(content, start)
    at = start + _LENGTHS.size + of_index
    index = content[start + _LENGTHS.size : at]
    if length != num_bytes or content[:start] != source_names.first_line([index]):
        return None
    num_records = len(recordio.parse_index(index)[0])
    fixed = _LENGTH.size + HEADER.size
    starts = np.empty(num_records + 1, np.int64)
    for number in range(num_records):
        starts[number] = at
        if at + fixed > len(content):
            return None
        at += fixed + 4 * HEADER.unpack_from(content, at + _LENGTH.size)[0]
    starts[num_records] = at
    return Heads(index, content, starts) if at == len(content) else None


def formatted(
    index: bytes, num_bytes: int, num_records: int, data_of: Callable[[int], tuple[memoryview, int]]
) -> bytes:
    """Return the file of the heads.

    Args:
        index: the content of the .idx.
        num_bytes: the length of the .rec.
        num_records: how many there are.
        data_of: from a position to the first bytes of the record's data, and its length.
    """
    parts = [source_names.first_line([index]), _LENGTHS.pack(num_bytes, len(index)), index]
    for position in range(num_records):
        data, length = data_of(position)
        end = recordio.parse_header(data).payload_start
        if end > len(data):
            raise BadRecord(
                f"record {position}: it holds {length} bytes, too few for the labels it announces"
            )
        parts += (_LENGTH.pack(length), bytes(data[:end]))
    return b"".join(parts)
