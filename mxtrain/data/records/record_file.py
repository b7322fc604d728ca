"""Reading a .rec file: opened, checked against its .idx, and read by position from any thread.

Beside `train.rec`, which may lie in a store, are `train.idx` (key and offset of each record; rebuilt in memory when it
is missing), `train.classes.tsv` (the class names; None when it is missing) and `train.sources.tsv` (for messages). Does
not own the format (`recordio.py`), the open file (`recordio_file.py`), its index (`record_index.py`), nor writing
(`record_writer.py`).
"""

from __future__ import annotations

import logging
import zlib
from pathlib import Path, PurePath
from typing import Any, Callable, Mapping, NoReturn

import numpy as np

from mxtrain.config.values import addresses
from mxtrain.core import command_name, durable, regular_files
from mxtrain.core.errors import DataError
from mxtrain.data.interfaces import Record
from mxtrain.data.records import heads, recordio
from mxtrain.data.records.heads import Heads
from mxtrain.data.records.record_index import DAMAGED, Index, read_index, scan
from mxtrain.data.records.recordio import BadRecord, Floats, Ints, Label
from mxtrain.data.records.recordio_file import RecordIOFile
from mxtrain.data.records.source_names import SourceNames, read_names
from mxtrain.data.storage import snapshot
from mxtrain.data.storage.options import DEFAULTS, LOOKAHEAD_BYTES, StorageOptions
from mxtrain.data.storage.remote_bytes import RemoteBytes, chunk_starts
from mxtrain.data.storage.stores import FileVersion

logger = logging.getLogger(__name__)

_ONE_NUMBER = -1  # as the number of labels of a record that has no row of them


SIDECARS = (".idx", ".classes.tsv", ".arrays.json", snapshot.TOKENS, ".sources.tsv")
REMOTE_SIDECARS = (*SIDECARS[:-1], heads.SUFFIX)  # the names of sources stay in the store
Versions = Mapping[addresses.Address, FileVersion]


def index_path(path: Path) -> Path:
    """Return the path of a .rec's .idx."""
    return path.with_suffix(".idx")


def classes_path(path: Path) -> Path:
    """Return the path of a .rec's list of class names."""
    return path.with_suffix(".classes.tsv")


def with_sidecars(path: Path) -> list[Path]:
    """Return the path of a .rec and those of all files that may be part of it."""
    return [path, *map(path.with_suffix, SIDECARS)]


def open_records(
    path: str | PurePath, storage: StorageOptions = DEFAULTS, versions: Versions | None = None
) -> RecordFile:
    """Open a .rec file, a local one or one in a store; DataError when it is missing, or at odds with its .idx.

    `versions` has those of all files in stores that exist of the `remote_files`, where the caller knows them.
    """
    if addresses.is_address(path):
        return _open_remote(addresses.parse("", str(path)), storage, versions)
    beside = Path(path)
    file = RecordIOFile(beside)
    index = read_index(file, index_path(beside)) if index_path(beside).exists() else scan(file)
    return RecordFile(file, index, _read_class_names(classes_path(beside)))


def remote_files(address: addresses.Address) -> list[addresses.Address]:
    """Return the addresses of a .rec and of what is read beside it."""
    return snapshot.beside(address, REMOTE_SIDECARS)


def _open_remote(
    address: addresses.Address, storage: StorageOptions, versions: Versions | None
) -> RecordFile:
    found = snapshot.of_rec(address, REMOTE_SIDECARS, storage, versions, later=".idx")
    version, beside = found.version, found.path
    known = heads.read(beside, version.num_bytes)
    if known is None and not snapshot.fetch(found, address.with_suffix(".idx"), storage):
        raise DataError(
            f"{address}: has no .idx beside it, without which all of it would have to be read; make one with "
            f"`{command_name.packer()} index FILE`, and upload both"
        )
    file = RecordIOFile(beside, RemoteBytes(address, version, storage), is_known=known is not None)
    index = read_index(file, index_path(beside), known)
    return RecordFile(file, index, _read_class_names(classes_path(beside)), known)


class RecordFile:
    """`Records` of one file. Reading is safe from many threads, and in forked processes."""

    descriptors: tuple[int, ...] = ()  # none to inherit: a pickled copy opens the file itself

    def __init__(
        self,
        file: RecordIOFile,
        index: Index,
        class_names: list[str] | None,
        known_heads: Heads | None = None,
    ):
        self.path = file.path
        self.files = [file.beside]
        self.keys = index.keys
        self.class_names = class_names
        self.has_checksums = index.has_checksums
        self._file = file
        self._index = index
        self._offsets = index.offsets
        self._names: SourceNames | None = None  # read when a message wants one
        self._heads = known_heads  # of a file in a store
        ordered = np.sort(index.offsets)
        file.cut(ordered)
        starts = np.append(ordered, file.num_bytes)
        self._ends = starts[np.searchsorted(starts, index.offsets, side="right")]
        self._labels: Floats | None = None  # of all records, one after the other
        self._num_labels: Ints = np.zeros(0, np.int64)  # of each record

    def __len__(self) -> int:
        return len(self.keys)

    def __reduce__(self) -> tuple[Callable[..., RecordFile], tuple[Any, ...]]:
        """Pickle the path and the index: another process opens the file itself, without checking its .idx again."""
        return RecordFile, (self._file, self._index, self.class_names)

    def where(self, position: int) -> str:
        """Return the name of a record for a message: file, position, key, and its source as far as that is known."""
        return f"{self.path}: record {position} (key {self.keys[position]}{self._from(position)})"

    def source_names(self) -> SourceNames:
        """Return the names of what the records were packed from, as far as they are known."""
        if self._names is None:
            try:
                self._names = read_names(self.files[0], index_path(self.files[0]), self.keys, self._offsets)
            except BadRecord:
                self._names = SourceNames()
        return self._names

    def _from(self, position: int) -> str:
        name = self.source_names().of(int(self.keys[position]))
        return f", from {name}" if name else ""

    def will_need(self, positions: Ints) -> None:
        """Start reading these records ahead, without waiting for them."""
        self._file.will_need(self._offsets[positions].tolist(), self._ends[positions].tolist())

    @property
    def remotes(self) -> list[RemoteBytes]:
        """Those of its files that are in a store."""
        return [self._file.remote] if self._file.remote else []

    @property
    def lookahead(self) -> int:
        """The number of samples to announce to `will_need` before they are used: of a local file none but the next."""
        if not self._file.is_remote:
            return 0
        return max(1, LOOKAHEAD_BYTES * len(self) // self._file.num_bytes)

    def chunks(self, num_bytes: int) -> Ints:
        """Return the number of the chunk that each record is in: those that start in as many bytes of the file."""
        order = np.argsort(self._offsets, kind="stable")
        firsts = np.zeros(len(self), np.int64)
        firsts[chunk_starts(self._offsets[order], num_bytes)] = 1
        numbers: Ints = np.empty(len(self), np.int64)
        numbers[order] = np.cumsum(firsts) - 1
        return numbers

    def read(self, position: int, verify: bool = True) -> Record:
        """Return the record at `position`; DataError when it is damaged, as far as that shows without `verify`."""
        key = int(self.keys[position])
        try:
            data, padding, _ = self._file.data(int(self._offsets[position]))
            header = recordio.parse_header(data)
            if self.has_checksums and verify:
                recordio.check(data, padding, header)
                if header.id != key:
                    raise BadRecord(f"it was written with key {header.id}; is the .idx another file's?")
            return Record(key, recordio.parse_label(data, header), data[header.payload_start :])
        except BadRecord as bad:
            self._fail(position, bad)

    def frames(self, positions: Ints) -> list[bytes]:
        """Return the bytes of these records as they lie in the file, unchecked; `record_batch.py` reads them."""
        starts, ends = self._offsets[positions].tolist(), self._ends[positions].tolist()
        return self._file.spans(starts, ends)

    @property
    def lengths(self) -> Ints:
        """The number of bytes each record takes in its file."""
        lengths: Ints = self._ends - self._offsets
        return lengths

    def payload_sizes(self) -> Ints:
        """Return the number of bytes in each record's payload; from the headers alone, so unchecked."""
        sizes: Ints = np.array([self._payload_size(position) for position in range(len(self))], np.int64)
        return sizes

    def _payload_size(self, position: int) -> int:
        try:
            start, num_bytes = self._start(position)
            num_payload_bytes = num_bytes - recordio.parse_header(start).payload_start
            if num_payload_bytes < 0:
                raise BadRecord(f"it holds {num_bytes} bytes, too few for the labels it announces")
            return num_payload_bytes
        except BadRecord as bad:
            self._fail(position, bad)

    def checksum(self, position: int) -> int:
        """Return the checksum in the record's header, or that of its bytes where it has none."""
        try:
            offset = int(self._offsets[position])
            header = recordio.parse_header(self._head(position))
            return zlib.crc32(self._file.data(offset)[0]) if not header.has_tag else header.id2 & 0xFFFFFFFF
        except BadRecord as bad:
            self._fail(position, bad)

    def labels(self) -> Floats:
        """Return all labels, (n,), or (n, k) with k a record, read once; from the headers alone, so unchecked."""
        flat = self.flat_labels()
        odd = np.flatnonzero(self._num_labels != self._num_labels[:1])
        if len(odd):
            first, other = (np.shape(self._label(position)) for position in (0, int(odd[0])))
            self._fail(int(odd[0]), BadRecord(f"it has labels of shape {other}, the first record {first}"))
        return flat if (self._num_labels == _ONE_NUMBER).all() else flat.reshape(len(self), -1)

    def flat_labels(self) -> Floats:
        """Return the labels of all records one after the other, however many each has."""
        if self._labels is None:
            labels = [self._label(position) for position in range(len(self))]
            each = [_ONE_NUMBER if isinstance(label, float) else len(label) for label in labels]
            self._num_labels = np.array(each, np.int64)
            is_flat = (self._num_labels == _ONE_NUMBER).all()
            self._labels = np.asarray(labels, np.float32) if is_flat else np.hstack(labels).astype(np.float32)
        return self._labels

    def label_rows(self) -> list[Floats]:
        """Return the labels of each record, however many it has."""
        flat = self.flat_labels()
        return np.split(flat, np.cumsum(np.abs(self._num_labels))[:-1])

    def _label(self, position: int) -> Label:
        offset = int(self._offsets[position])
        try:
            start = self._head(position)
            header = recordio.parse_header(start)
            if len(start) < header.payload_start:
                start, _, _ = self._file.data(offset)
            label = recordio.parse_label(start, header)
            return label if isinstance(label, float) else label.copy()  # not a view of the whole record
        except BadRecord as bad:
            self._fail(position, bad)

    def _head(self, position: int) -> memoryview:
        """Return the first bytes of a record's data: header and labels, or a few of them."""
        if self._file.is_remote:
            return self._start(position)[0]
        return self._file.peek(int(self._offsets[position]))[0]

    def _start(self, position: int) -> tuple[memoryview, int]:
        """Return the first bytes of a record's data, and the number of all of them."""
        if not self._file.is_remote:
            return self._file.start(int(self._offsets[position]))
        if self._heads is None:
            self._heads = self._read_heads()
        return self._heads.of(position)

    def _read_heads(self) -> Heads:
        """Return the heads of all records of a file in a store; where they do not lie beside it, of all its bytes."""
        if (known := heads.read(self.files[0], self._file.num_bytes)) is not None:
            return known
        logger.warning(
            "%s: has no %s beside it, so all of its %.1f GB are read for their labels, once on this host; `%s upload` "
            "makes one",
            *(self.path, heads.SUFFIX, self._file.num_bytes / 1e9, command_name.packer()),
        )
        content = self.heads(regular_files.read(index_path(self.files[0])))
        with durable.whole_file(self.files[0].with_suffix(heads.SUFFIX)) as file:
            file.write(content)
        known = heads.parse(content, self._file.num_bytes)
        assert known is not None
        return known

    def heads(self, index: bytes) -> bytes:
        """Return the content of a .heads for the .rec with this .idx, from all records."""
        return heads.formatted(index, self._file.num_bytes, len(self), self._start_ahead)

    @property
    def offsets(self) -> Ints:
        """The offset of each record in its file."""
        return self._offsets

    def _start_ahead(self, position: int) -> tuple[memoryview, int]:
        ahead = self.lookahead
        if ahead and position % ahead == 0:
            self.will_need(np.arange(position, min(position + 2 * ahead, len(self))))
        offset = int(self._offsets[position])
        start, length = self._file.start(offset)
        if len(start) < recordio.parse_header(start).payload_start:
            start = self._file.data(offset)[0]
        return start, length

    def _fail(self, position: int, bad: BadRecord) -> NoReturn:
        key, byte = self.keys[position], self._offsets[position]
        where = f"record {position} (key {key}, byte {byte}{self._from(position)})"
        raise DataError(f"{self.path}: {where}: {bad}; {DAMAGED}") from None


def _read_class_names(path: Path) -> list[str] | None:
    try:
        return recordio.parse_classes(regular_files.read(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except BadRecord as bad:
        raise DataError(f"{path} {bad}") from None
