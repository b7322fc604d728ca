"""An open .rec, whose records are read by offset.

Owns frames, and what is said of a file that cannot be one. Its bytes are those of a local file or of one in a store
(`data/storage/`).
"""

from __future__ import annotations

import os
from pathlib import Path, PurePath
from typing import Sequence

from mxtrain.core import command_name
from mxtrain.core.errors import DataError, nearest
from mxtrain.data.records import recordio
from mxtrain.data.records.recordio import FRAME, HEADER, BadRecord, Ints
from mxtrain.data.storage.local_bytes import LocalBytes
from mxtrain.data.storage.remote_bytes import RemoteBytes

_PEEK_BYTES = FRAME.size + HEADER.size + 4 * 24


class RecordIOFile:
    """An open .rec, read by offset. Raises BadRecord, which the caller turns into a DataError.

    The files that belong to it lie beside the local path `beside`: its own, unless `remote` has its bytes. One that
    is known to be a .rec is not looked at.
    """

    def __init__(self, beside: Path, remote: RemoteBytes | None = None, is_known: bool = False):
        self.beside, self.remote = beside, remote
        self.path: PurePath = remote.address if remote else beside
        self._bytes = remote or _local(beside)
        self.is_remote = self._bytes.is_remote
        self.num_bytes = self._bytes.num_bytes
        if not is_known:
            self._refuse_others()

    def _refuse_others(self) -> None:
        try:
            start = self._bytes.read(0, 512)
        except OSError as error:
            raise DataError(f"cannot read {self.path}: {error.strerror}") from None
        if not start:
            raise DataError(f"{self.path} is empty: pack it again")
        if start[:4] != recordio.MAGIC_BYTES:
            looks_like = recordio.describe(start, self.num_bytes)
            raise DataError(
                f"{self.path} is not a RecordIO file, it looks like {looks_like}: give a .rec file"
            )

    def data(self, offset: int) -> tuple[memoryview, memoryview, int]:
        """Return the data of the record at `offset`, the padding behind it, and the offset of its end."""
        pieces: list[memoryview] = []
        padding, is_last = memoryview(b""), False
        while not is_last:
            head = self._at(offset, FRAME.size)
            length, num_padded, is_last = recordio.parse_frame(head, is_first=not pieces)
            start, offset = offset + FRAME.size, offset + FRAME.size + num_padded
            self._must_hold(offset)
            piece = memoryview(self._at(start, num_padded))
            if len(piece) < num_padded:
                raise BadRecord("the file has become shorter since it was opened")
            pieces.append(piece[:length])
            padding = piece[length:]
        return recordio.join(pieces), padding, offset

    def start(self, offset: int) -> tuple[memoryview, int]:
        """Return the first bytes of the record's data (header and a few labels), and the number of all of them."""
        start = memoryview(self._at(offset, _PEEK_BYTES))
        length, _, is_last = recordio.parse_frame(start, is_first=True)
        if not is_last:
            data, _, _ = self.data(offset)
            return data, len(data)
        return start[FRAME.size : FRAME.size + length], length

    def peek(self, offset: int) -> tuple[memoryview, int]:
        """Return the first bytes of the record's data (header and a few labels), and the offset of its end."""
        start = memoryview(self._at(offset, _PEEK_BYTES))
        length, num_padded, is_last = recordio.parse_frame(start, is_first=True)
        if not is_last:
            data, _, end = self.data(offset)
            return data, end
        end = offset + FRAME.size + num_padded
        self._must_hold(end)
        return start[FRAME.size : FRAME.size + length], end

    def spans(self, starts: Sequence[int], ends: Sequence[int]) -> list[bytes]:
        """Return the bytes from each start to its end, fewer where the file has become shorter."""
        try:
            return self._bytes.spans(starts, ends)
        except OSError as error:
            raise BadRecord(f"it cannot be read ({error.strerror})") from None

    def will_need(self, starts: Sequence[int], ends: Sequence[int]) -> None:
        """Start reading these bytes ahead, without waiting for them."""
        self._bytes.will_need(starts, ends)

    def __reduce__(self) -> tuple[type[RecordIOFile], tuple[Path, RemoteBytes | None, bool]]:
        """Pickle what another process opens the same file by."""
        return RecordIOFile, (self.beside.absolute(), self.remote, self.is_remote)

    def cut(self, offsets: Ints) -> None:
        """Take note of the offsets of all records, sorted."""
        self._bytes.cut(offsets)

    def _must_hold(self, end: int) -> None:
        if end > self.num_bytes:
            raise BadRecord(f"the file ends in the middle of it, at byte {self.num_bytes}")

    def _at(self, offset: int, num_bytes: int) -> bytes:
        try:
            return self._bytes.read(offset, num_bytes)
        except OSError as error:
            raise BadRecord(f"it cannot be read ({error.strerror})") from None


def _local(path: Path) -> LocalBytes:
    try:
        if path.is_dir():
            raise DataError(f"{path} is a folder: give a .rec file in it, or pack it into one")
        return LocalBytes(path)
    except OSError as error:
        raise DataError(_cannot_open(path, error)) from None


def _cannot_open(path: Path, error: OSError) -> str:
    if not isinstance(error, FileNotFoundError):
        return f"cannot read {path}: {error.strerror}"
    try:
        near = nearest(path.name, os.listdir(path.parent))
    except OSError:
        return f"{path} does not exist, nor does its folder"
    return f"{path} does not exist" + (near or f": pack one with `{command_name.packer()} pack SOURCE OUT`")
