"""Reading a .rec file: opened, checked against its .idx, and read by position from any thread.

Beside `train.rec` lie `train.idx` (key and offset of each record; rebuilt in memory when it is missing),
`train.classes.tsv` (the class names; None when it is missing) and `train.sources.tsv` (for messages). Does not own the
format (`recordio.py`), the open file (`recordio_file.py`), nor writing (`record_writer.py`).
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, Callable, NamedTuple, NoReturn

import numpy as np

from mxtrain.core import command_name, regular_files
from mxtrain.core.errors import DataError
from mxtrain.data.interfaces import Record
from mxtrain.data.records import recordio
from mxtrain.data.records.recordio import BadRecord, Floats, Ints, Label
from mxtrain.data.records.recordio_file import RecordIOFile
from mxtrain.data.records.source_names import SourceNames, read_names

# The most records at which an .idx is checked against its .rec. Each costs a disk read while the file is cold, and
# `read` checks its own record anyway: an even sample that includes the last record notices another file's .idx.
MAX_CHECKED_RECORDS = 1 << 16
_ONE_NUMBER = -1  # as the number of labels of a record that has no row of them
_DAMAGED = "the file is damaged: copy it again, or pack it again"


SIDECARS = (".idx", ".classes.tsv", ".arrays.json", ".tokens.json", ".sources.tsv")


class Index(NamedTuple):
    """The key and offset of each record, in the order of the .idx."""

    keys: Ints
    offsets: Ints
    # One checksum that was seen means that all records must have theirs: damage may wipe out a tag.
    has_checksums: bool


def index_path(path: Path) -> Path:
    """Return the path of a .rec's .idx."""
    return path.with_suffix(".idx")


def classes_path(path: Path) -> Path:
    """Return the path of a .rec's list of class names."""
    return path.with_suffix(".classes.tsv")


def with_sidecars(path: Path) -> list[Path]:
    """Return the path of a .rec and those of all files that may be part of it."""
    return [path, *map(path.with_suffix, SIDECARS)]


def open_records(path: str | Path) -> RecordFile:
    """Open a .rec file; DataError when it is missing, something else, or at odds with its .idx."""
    file = RecordIOFile(Path(path))
    index = _read_index(file) if index_path(file.path).exists() else scan(file)
    return RecordFile(file, index, _read_class_names(classes_path(file.path)))


class RecordFile:
    """`Records` of one file. Reading is safe from many threads, and in forked processes."""

    descriptors: tuple[int, ...] = ()  # none to inherit: a pickled copy opens the file itself

    def __init__(self, file: RecordIOFile, index: Index, class_names: list[str] | None):
        self.path = file.path
        self.files = [file.path]
        self.keys = index.keys
        self.class_names = class_names
        self.has_checksums = index.has_checksums
        self._file = file
        self._index = index
        self._offsets = index.offsets
        self._names: SourceNames | None = None  # read when a message wants one
        starts = np.append(np.sort(index.offsets), file.num_bytes)
        self._ends = starts[np.searchsorted(starts, index.offsets, side="right")]
        self._labels: Floats | None = None  # of all records, one after the other
        self._num_labels: Ints = np.zeros(0, np.int64)  # of each record

    def __len__(self) -> int:
        return len(self.keys)

    def __reduce__(self) -> tuple[Callable[..., RecordFile], tuple[Any, ...]]:
        """Pickle the path and the index: another process opens the file itself, without checking its .idx again."""
        return _reopen, (self.path.absolute(), self._index, self.class_names)

    def where(self, position: int) -> str:
        """Return the name of a record for a message: file, position, key, and its source as far as that is known."""
        return f"{self.path}: record {position} (key {self.keys[position]}{self._from(position)})"

    def source_names(self) -> SourceNames:
        """Return the names of what the records were packed from, as far as they are known."""
        if self._names is None:
            try:
                self._names = read_names(self.path, index_path(self.path), self.keys, self._offsets)
            except BadRecord:
                self._names = SourceNames()
        return self._names

    def _from(self, position: int) -> str:
        name = self.source_names().of(int(self.keys[position]))
        return f", from {name}" if name else ""

    def will_need(self, positions: Ints) -> None:
        """Ask the kernel to read these records ahead."""
        for start, end in zip(self._offsets[positions].tolist(), self._ends[positions].tolist()):
            self._file.will_need(start, end - start)

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
            start, num_bytes = self._file.start(int(self._offsets[position]))
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
            header = recordio.parse_header(self._file.peek(offset)[0])
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
            start, _ = self._file.peek(offset)
            header = recordio.parse_header(start)
            if len(start) < header.payload_start:
                start, _, _ = self._file.data(offset)
            label = recordio.parse_label(start, header)
            return label if isinstance(label, float) else label.copy()  # not a view of the whole record
        except BadRecord as bad:
            self._fail(position, bad)

    def _fail(self, position: int, bad: BadRecord) -> NoReturn:
        key, byte = self.keys[position], self._offsets[position]
        where = f"record {position} (key {key}, byte {byte}{self._from(position)})"
        raise DataError(f"{self.path}: {where}: {bad}; {_DAMAGED}") from None


def _reopen(path: Path, index: Index, class_names: list[str] | None) -> RecordFile:
    return RecordFile(RecordIOFile(path), index, class_names)


def scan(file: RecordIOFile) -> Index:
    """Build the index from the .rec alone. Keys are the ids in the records if all differ, else the positions."""
    ids: list[int] = []
    offsets: list[int] = []
    offset, has_checksums = 0, False
    while offset < file.num_bytes:
        try:
            start, end = file.peek(offset)
            header = recordio.parse_header(start)
        except BadRecord as bad:
            raise DataError(f"{file.path}: record {len(ids)} (byte {offset}): {bad}; {_DAMAGED}") from None
        ids.append(header.id)
        offsets.append(offset)
        has_checksums |= header.has_tag
        offset = end
    num_keys = len(set(ids))
    if has_checksums and num_keys < len(ids):  # in ours they are keys, and `read` takes them at their word
        raise DataError(
            f"{file.path}: {len(ids) - num_keys} of {len(ids)} records have another one's key: it was put together "
            "from several files, or is damaged; give those files, or pack again"
        )
    keys = ids if num_keys == len(ids) and max(ids) < 1 << 63 else range(len(ids))
    return Index(np.array(keys, np.int64), np.array(offsets, np.int64), has_checksums)


def _read_index(file: RecordIOFile) -> Index:
    path = index_path(file.path)
    try:
        keys, offsets = recordio.parse_index(regular_files.read(path))
        return Index(keys, offsets, _check_index(file, np.sort(offsets)))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except BadRecord as bad:
        remedy = f"copy both again, or rebuild it with `{command_name.packer()} index {file.path}`"
        raise DataError(f"{path} {bad}: {remedy}") from None


def _check_index(file: RecordIOFile, offsets: Ints) -> bool:
    """Raise BadRecord unless these sorted offsets are those of all records; return whether there are checksums.

    They are all records if each ends where the next starts.
    """
    has_checksums = False
    ends = np.append(offsets[1:], file.num_bytes)
    if offsets[-1] >= file.num_bytes:
        raise BadRecord(
            f"does not fit {file.path.name} ({file.num_bytes} bytes; it goes on to {offsets[-1]})"
        )
    if offsets[0] != 0 or (offsets % 4).any() or (ends <= offsets).any():
        raise BadRecord(f"does not fit {file.path.name} (its offsets are not those of records)")
    checked = np.linspace(0, len(offsets) - 1, min(len(offsets), MAX_CHECKED_RECORDS)).astype(np.int64)
    for offset, listed_end in zip(offsets[checked].tolist(), ends[checked].tolist()):
        try:
            start, end = file.peek(offset)
            has_checksums |= recordio.parse_header(start).has_tag
        except BadRecord as bad:
            raise BadRecord(f"does not fit {file.path.name} (at byte {offset}: {bad})") from None
        if end != listed_end:
            raise BadRecord(f"does not fit {file.path.name} (the record at byte {offset} ends at byte {end})")
    return has_checksums


def _read_class_names(path: Path) -> list[str] | None:
    try:
        return recordio.parse_classes(regular_files.read(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except BadRecord as bad:
        raise DataError(f"{path} {bad}") from None
