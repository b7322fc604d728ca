"""Writing a .rec with its .idx, aside and renamed, so that a file of that name is always a whole one.

The bytes are `recordio.py`'s part.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

import numpy as np

from mxtrain.data import recordio
from mxtrain.data.recordio import Label
from mxtrain.data.records import RecordFile, index_path, scan
from mxtrain.errors import DataError, UsageError


def rebuild_index(path: str | Path) -> int:
    """Write the .idx of a .rec anew, from the .rec itself; the number of records."""
    file = RecordFile(Path(path))
    keys, offsets, _ = scan(file)
    with Replacement(index_path(file.path)) as index:
        index.write(recordio.format_index(keys, offsets))
    return len(keys)


class Replacement:
    """A file written under a temporary name beside `path`, which takes its place when the block ends well."""

    def __init__(self, path: Path):
        self.path = path
        self._aside = path.with_name(f"{path.name}.{os.getpid()}.partial")
        try:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            self._file = open(self._aside, "wb")  # noqa: SIM115, PTH123 (closed by commit and discard)
        except OSError as error:
            raise self._cannot_write(error) from None

    def write(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            raise self._cannot_write(error) from None

    def sync(self) -> None:
        """Bring everything to the disk, where it may turn out to be full, and keep the temporary name."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._cannot_write(error) from None

    def commit(self) -> None:
        try:
            self.sync()
            self._file.close()
            self._aside.replace(self.path)
        except OSError as error:
            raise self._cannot_write(error) from None
        finally:
            self.discard()

    def discard(self) -> None:
        with contextlib.suppress(OSError):  # closing writes what is still buffered, perhaps to a full disk
            self._file.close()
        with contextlib.suppress(FileNotFoundError):  # it has taken its place
            self._aside.unlink()

    def __enter__(self) -> Replacement:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.discard()

    def _cannot_write(self, error: OSError) -> UsageError:
        return UsageError(f"cannot write {self.path}: {error.strerror}")


class RecordWriter:
    """Writes `path` and its .idx; both appear when the block ends well, and neither does otherwise.

    The id in each record is its key, as in MXNet's own im2rec, so that a lost .idx can be rebuilt.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._records = Replacement(self.path)
        self._offsets: dict[int, int] = {}
        self._end = 0

    def __len__(self) -> int:
        return len(self._offsets)

    def write(self, key: int, label: Label, payload: bytes) -> None:
        """Append a record: `label` is a number or an array of them, and is kept as float32."""
        if key in self._offsets:
            raise ValueError(f"key {key} was written before")
        try:
            frames = recordio.frame(recordio.pack(key, label, payload))
        except recordio.BadRecord as bad:
            raise DataError(f"{self.path}: record with key {key}: {bad}; make it smaller") from None
        self._records.write(frames)
        self._offsets[key] = self._end
        self._end += len(frames)

    def sync(self) -> None:
        """Bring what was written to the disk; with several writers, do so on all before any commits."""
        self._records.sync()

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._records.discard()
            return
        # No .idx between the two renames: whoever opens the new .rec just then must not find the old one's.
        index_path(self.path).unlink(missing_ok=True)
        self._records.commit()
        with Replacement(index_path(self.path)) as index:
            keys = np.fromiter(self._offsets.keys(), np.int64, len(self))
            offsets = np.fromiter(self._offsets.values(), np.int64, len(self))
            index.write(recordio.format_index(keys, offsets))
