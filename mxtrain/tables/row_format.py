"""The format of row files (docs/tables.md): records of a table by ascending hash of their ids, and what they are of.

A line of JSON says what records look like; the records follow, and then how many they are and a CRC-32. Owns writing
and reading one such file; which files make up a table is `row_files.py`'s.
"""

from __future__ import annotations

import dataclasses
import json
import os
import struct
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, NamedTuple

import numpy as np

from mxtrain import native
from mxtrain.core import formats
from mxtrain.core.durable import writing
from mxtrain.core.errors import DataError, Stop
from mxtrain.tables.options import TableOptions
from mxtrain.tables.snapshot import PIECE

TRAILER = struct.Struct("<QI")  # the number of records, and the CRC-32 of all bytes before
SYNC_BYTES = 64 << 20  # synced at a time, so that a slow disk differs from a dead one
TYPES = ("<i8", "<i4", "<f4")
LONGEST_HEADER = 1 << 20


@dataclasses.dataclass(frozen=True)
class Header:
    """The metadata of a row file, which it begins with."""

    table: TableOptions
    content: str  # rows, or sightings
    share: int
    num_shares: int
    step: int  # the last one whose changes are in it
    base_step: int  # records that no step after this one has used are in another file; 0: there is no other
    forgotten_step: int  # records of that other file that no step after this one has used are forgotten
    columns: list[list[Any]]  # name, type and shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of a record."""
        return np.dtype([(name, number, tuple(shape)) for name, number, shape in self.columns])


class RowFile(NamedTuple):
    """A row file on disk, which is as long as it says."""

    path: Path
    header: Header
    start: int  # of the records
    num_records: int


def columns_of(dtype: np.dtype[Any]) -> list[list[Any]]:
    """Return the columns of a header for records of this type."""
    fields = [(name, dtype[name]) for name in dtype.names or ()]
    return [[name, field.base.str, list(field.shape)] for name, field in fields]


def write(
    path: Path, header: Header, pieces: Iterable[Any], report_progress: Callable[[], None]
) -> dict[str, Any]:
    """Write and sync a file of records; return its sum. UsageError for a disk that has no room, and the like."""
    line = json.dumps({formats.KEY: formats.ROWS, **dataclasses.asdict(header)}) + "\n"
    checksum, num_records, num_bytes, synced = native.crc32(line.encode()), 0, len(line.encode()), 0
    with writing(path), path.open("wb") as file:
        file.write(line.encode())
        for piece in pieces:
            content = piece.view(np.uint8).data
            file.write(content)
            checksum = native.crc32(content, checksum)
            num_records += len(piece)
            num_bytes += len(content)
            if num_bytes - synced >= SYNC_BYTES:
                file.flush()
                os.fdatasync(file.fileno())
                synced = num_bytes
                report_progress()
        trailer = TRAILER.pack(num_records, checksum)
        file.write(trailer)
        file.flush()
        os.fsync(file.fileno())
    report_progress()
    return _sum(num_bytes + len(trailer), native.crc32(trailer, checksum))


def opened(path: Path) -> RowFile:
    """Return a file that is as long as it says; DataError for one that is not, or no row file."""
    try:
        with path.open("rb") as file:
            line = file.readline(LONGEST_HEADER)
            content = json.loads(line)
            formats.refuse_newer(path, content.pop(formats.KEY), formats.ROWS)
            header = Header(**{**content, "table": TableOptions(**content["table"])})
            if any(number not in TYPES for _, number, _ in header.columns):
                raise ValueError("numbers of an unknown type")
            num_bytes = file.seek(0, os.SEEK_END) - len(line) - TRAILER.size
            file.seek(max(0, num_bytes + len(line)))
            num_records, _ = TRAILER.unpack(file.read(TRAILER.size))
            if num_records * header.dtype.itemsize != num_bytes:
                raise ValueError(f"{num_bytes} bytes of records are not {num_records} of them")
    except Stop:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError, struct.error) as error:
        raise DataError(f"{path}: not a whole file of rows ({error}); put a whole copy there") from None
    return RowFile(path, header, len(line), num_records)


def read(row_file: RowFile) -> Iterator[Any]:
    """Yield the records of a file, in pieces; DataError at its end where it is damaged."""
    path, header, start, num_records = row_file
    dtype = header.dtype
    with path.open("rb") as file:
        checksum = native.crc32(file.read(start))
        for first in range(0, num_records, PIECE):
            piece = np.fromfile(file, dtype, min(PIECE, num_records - first))
            checksum = native.crc32(piece.view(np.uint8).data, checksum)
            yield piece
        if file.read() != TRAILER.pack(num_records, checksum):
            raise DataError(f"{path}: damaged, its checksum is another; put a whole copy there")


def sum_of(row_file: RowFile) -> dict[str, Any]:
    """Return the sum of a file that `read` has found whole, as `write` has returned it."""
    with row_file.path.open("rb") as file:
        file.seek(-TRAILER.size, os.SEEK_END)
        trailer = file.read()
        num_bytes = file.tell()
    return _sum(num_bytes, native.crc32(trailer, TRAILER.unpack(trailer)[1]))


def _sum(num_bytes: int, checksum: int) -> dict[str, Any]:
    return {"bytes": num_bytes, "crc32": f"{checksum:08x}"}
