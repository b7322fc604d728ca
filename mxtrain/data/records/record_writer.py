"""Writing a .rec with its .idx, atomically: a file of that name is always a whole one.

Owns temporary files, named `*.partial` until they are whole and renamed. One process at a time writes one, and one
that is interrupted can leave it for the next to resume. Does not own the format (`recordio.py`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
from pathlib import Path
from typing import BinaryIO, NamedTuple

from mxtrain.core import durable
from mxtrain.core.errors import DataError, Stopped, UsageError
from mxtrain.data.records import recordio
from mxtrain.data.records.record_file import index_path
from mxtrain.data.records.record_index import scan
from mxtrain.data.records.recordio import Label
from mxtrain.data.records.recordio_file import RecordIOFile


def rebuild_index(path: str | Path) -> int:
    """Write the .idx of a .rec again, from the .rec alone, and return the number of records."""
    keys, offsets, _ = scan(RecordIOFile(Path(path)))
    with Replacement(index_path(Path(path))) as index:
        index.write(recordio.format_index(keys, offsets))
    return len(keys)


def aside(path: Path) -> Path:
    """Return the temporary path of a file that is not whole yet."""
    return path.with_name(path.name + ".partial")


def open_alone(path: Path) -> BinaryIO:
    """Open or create a file, and lock it for this process alone; BlockingIOError if another process has the lock."""
    while True:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "rb+", 0)
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # the process that had it has renamed or removed it meanwhile


class Replacement:
    """A temporary file that replaces `path` when the block ends well, and is removed when it does not.

    The first `num_kept` bytes that an earlier process left in the temporary file are kept.
    """

    def __init__(self, path: Path, num_kept: int = 0):
        self.path = path
        self._aside = aside(path)
        try:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            file = open_alone(self._aside)
            if os.fstat(file.fileno()).st_size != num_kept:
                file.truncate(num_kept)
            file.seek(num_kept)
            self._file = io.BufferedWriter(file, 1 << 16)
        except BlockingIOError:
            raise UsageError(
                f"another process is writing {path}: wait for it, or choose another name"
            ) from None
        except OSError as error:
            raise self._cannot_write(error) from None

    def write(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            raise self._cannot_write(error) from None

    def sync(self) -> None:
        """Write everything to the disk (which may turn out to be full), still under the temporary name."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._cannot_write(error) from None

    def commit(self) -> None:
        """Write everything to the disk, and rename the file to `path`."""
        try:
            self.sync()
            self._aside.replace(self.path)  # before it is closed, which lets other processes have it
            self._file.close()
        except OSError as error:
            raise self._cannot_write(error) from None
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove the temporary file, unless it was committed or left."""
        if self._file.closed:
            return
        with contextlib.suppress(FileNotFoundError):
            self._aside.unlink()
        self.leave()

    def leave(self) -> None:
        """Close the temporary file and leave it for another process to resume."""
        with contextlib.suppress(OSError):  # closing writes what is still buffered, perhaps to a full disk
            self._file.close()

    def __enter__(self) -> Replacement:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        if error_type is None:
            self.commit()
        else:
            self.discard()

    def _cannot_write(self, error: OSError) -> UsageError:
        return durable.cannot_write(self.path, error)


class WriterProgress(NamedTuple):
    """The progress of a RecordWriter: all that another one needs to resume."""

    num_records: int = 0
    num_bytes: int = 0
    num_index_bytes: int = 0
    last_key: int = -1


class RecordWriter:
    """A writer of `path` and its .idx; both appear when the block ends well, and neither does otherwise.

    `written` is the progress of an earlier writer that this one resumes. When the block fails, temporary files are
    removed; when the user stops it, they are left for another writer.

    The id in each record is its key, as in MXNet's own im2rec, so that a lost .idx can be rebuilt. Keys ascend.
    """

    def __init__(self, path: str | Path, written: WriterProgress | None = None):
        self.path = Path(path)
        self.written = written or WriterProgress()
        self._records = Replacement(self.path, self.written.num_bytes)
        try:
            self._index = Replacement(index_path(self.path), self.written.num_index_bytes)
        except BaseException:
            self._records.leave() if written else self._records.discard()
            raise

    def __len__(self) -> int:
        return self.written.num_records

    def write(self, key: int, label: Label, payload: bytes) -> None:
        """Append a record; `label`, a number or an array of them, is stored as float32."""
        if key <= self.written.last_key:
            raise ValueError(f"key {key} does not come after key {self.written.last_key}")
        try:
            frames = recordio.frame(recordio.pack(key, label, payload))
        except recordio.BadRecord as bad:
            raise DataError(f"{self.path}: record with key {key}: {bad}; make it smaller") from None
        num_records, num_bytes, num_index_bytes, _ = self.written
        line = b"%d\t%d\n" % (key, num_bytes)
        self._records.write(frames)
        self._index.write(line)
        self.written = WriterProgress(
            num_records + 1, num_bytes + len(frames), num_index_bytes + len(line), key
        )

    def sync(self) -> None:
        """Write everything to the disk; with several writers, sync all of them before any is committed."""
        self._records.sync()
        self._index.sync()

    def leave(self) -> None:
        """Close the temporary files and leave them for another writer to resume."""
        self._records.leave()
        self._index.leave()

    def discard(self) -> None:
        """Remove the temporary files."""
        self._records.discard()
        self._index.discard()

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        """Append to the temporary file."""
        if error_type is not None:
            if issubclass(error_type, Stopped):
                self.leave()
            self.discard()
            return
        try:
            # No .idx between the two renames: a process that opens the new .rec just then must not find the old one's.
            index_path(self.path).unlink(missing_ok=True)
            self._records.commit()
            self._index.commit()
        finally:
            self._index.discard()
