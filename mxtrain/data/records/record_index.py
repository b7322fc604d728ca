"""The index of a .rec: read from its .idx and compared with the .rec, or built from the .rec alone."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from mxtrain.core import command_name, regular_files
from mxtrain.core.errors import DataError
from mxtrain.data.records import recordio
from mxtrain.data.records.heads import Heads
from mxtrain.data.records.recordio import BadRecord, Ints
from mxtrain.data.records.recordio_file import RecordIOFile

# The most records at which an .idx is checked against its .rec. Each costs a disk read while the file is cold, and
# `read` checks its own record anyway: an even sample that includes the last record notices another file's .idx.
MAX_CHECKED_RECORDS = 1 << 16
MAX_CHECKED_REMOTE = 2  # of a file in a store without .heads, the first and the last: each is a request
DAMAGED = "the file is damaged: copy it again, or pack it again"


class Index(NamedTuple):
    """The key and offset of each record, in the order of the .idx."""

    keys: Ints
    offsets: Ints
    # One checksum that was seen means that all records must have theirs: damage may wipe out a tag.
    has_checksums: bool


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
            raise DataError(f"{file.path}: record {len(ids)} (byte {offset}): {bad}; {DAMAGED}") from None
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


def read_index(file: RecordIOFile, path: Path, heads: Heads | None = None) -> Index:
    """Return the index in the .idx at `path`; DataError where it cannot be read, or is not this file's.

    With the heads of this file, which hold its .idx, no record of it is read.
    """
    try:
        keys, offsets = recordio.parse_index(heads.index if heads else regular_files.read(path))
        ordered = np.sort(offsets)
        _check_offsets(file, ordered)
        return Index(keys, offsets, heads.has_checksums() if heads else _check_records(file, ordered))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except BadRecord as bad:
        remedy = f"copy both again, or rebuild it with `{command_name.packer()} index {file.path}`"
        raise DataError(f"{path} {bad}: {remedy}") from None


def _check_offsets(file: RecordIOFile, offsets: Ints) -> None:
    """Raise BadRecord unless these sorted offsets can be those of all records."""
    ends = np.append(offsets[1:], file.num_bytes)
    if offsets[-1] >= file.num_bytes:
        raise BadRecord(
            f"does not fit {file.path.name} ({file.num_bytes} bytes; it goes on to {offsets[-1]})"
        )
    if offsets[0] != 0 or (offsets % 4).any() or (ends <= offsets).any():
        raise BadRecord(f"does not fit {file.path.name} (its offsets are not those of records)")


def _check_records(file: RecordIOFile, offsets: Ints) -> bool:
    """Raise BadRecord unless records begin and end at these sorted offsets; return whether there are checksums.

    They are all records if each ends where the next starts.
    """
    has_checksums = False
    ends = np.append(offsets[1:], file.num_bytes)
    most = MAX_CHECKED_REMOTE if file.is_remote else MAX_CHECKED_RECORDS
    checked = np.linspace(0, len(offsets) - 1, min(len(offsets), most)).astype(np.int64)
    for offset, listed_end in zip(offsets[checked].tolist(), ends[checked].tolist()):
        try:
            start, end = file.peek(offset)
            has_checksums |= recordio.parse_header(start).has_tag
        except BadRecord as bad:
            raise BadRecord(f"does not fit {file.path.name} (at byte {offset}: {bad})") from None
        if end != listed_end:
            raise BadRecord(f"does not fit {file.path.name} (the record at byte {offset} ends at byte {end})")
    return has_checksums
