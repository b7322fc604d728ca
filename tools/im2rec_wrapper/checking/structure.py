"""The structure of a .rec: its frames from the first byte to the last, damaged or not, and its .idx against them.

Owns the table of records, with what their headers say. Unlike `mxtrain.data.records.record_file`, which stops at the
first damage, this continues behind it and finds all. Does not own what the records hold (`contents.py`).
"""

from __future__ import annotations

import dataclasses
from array import array
from pathlib import Path
from typing import Iterator, NamedTuple

import numpy as np
import numpy.typing as npt

from mxtrain.core import command_name, regular_files
from mxtrain.data.records import recordio
from mxtrain.data.records.record_file import index_path
from mxtrain.data.records.recordio import BadRecord, Ints, Label
from mxtrain.data.records.recordio_file import RecordIOFile
from mxtrain.data.records.source_names import SourceNames, read_names, sources_path

from .findings import Finding, RecordLocation, of_file

Ids = npt.NDArray[np.uint64]

_SEARCH_BYTES = 1 << 20


class RecordTable(NamedTuple):
    """All records that have a frame and a header, in the order of the file."""

    path: Path
    offsets: Ints
    keys: Ints
    labels: list[Label]
    has_checksums: bool  # one tag that was seen means that all records must have theirs
    sources: SourceNames

    def __len__(self) -> int:
        return len(self.offsets)

    def location(self, number: int) -> RecordLocation:
        """Return the location of a record for a message."""
        key = int(self.keys[number])
        return RecordLocation(self.path, number, key, int(self.offsets[number]), self.sources.of(key))


@dataclasses.dataclass
class _Walked:
    """The records found so far, in little memory."""

    offsets: array[int] = dataclasses.field(default_factory=lambda: array("q"))
    ids: array[int] = dataclasses.field(default_factory=lambda: array("Q"))
    labels: list[Label] = dataclasses.field(default_factory=list)
    has_checksums: bool = False


def read_table(file: RecordIOFile) -> tuple[RecordTable, list[Finding]]:
    """Return the records, with the keys of the .idx where it lists them, and the findings about frames and .idx."""
    seen, findings = _walk(file)
    ids = np.array(seen.ids, np.uint64)
    num_keys = len(np.unique(ids))
    is_key = num_keys == len(ids) and not (ids >> np.uint64(63)).any()
    keys = ids.astype(np.int64) if is_key else np.arange(len(ids))
    offsets = np.array(seen.offsets, np.int64)
    try:
        sources = read_names(file.beside, index_path(file.beside), keys, offsets)
    except BadRecord as bad:
        sources = SourceNames()
        findings.append(of_file("sources", sources_path(file.beside), str(bad)))
    table = RecordTable(file.beside, offsets, keys, seen.labels, seen.has_checksums, sources)
    if table.has_checksums and num_keys < len(ids):
        findings.append(_repeated(table, ids))
    return table, findings + _check_index(table)


def _repeated(table: RecordTable, ids: Ids) -> Finding:
    """Return the finding of keys that occur twice: files were concatenated, or are damaged."""
    _, first_of, counts = np.unique(ids, return_index=True, return_counts=True)
    at = int(first_of[counts.argmax()])
    num = int((counts - 1).sum())
    text = f"{num} records have another one's key (that of record {at}, {ids[at]}, is there {counts.max()} times)"
    return of_file("structure", table.path, f"{text}: pack it again")


def _walk(file: RecordIOFile) -> tuple[_Walked, list[Finding]]:
    """Find the records from the first byte to the last, and the bytes between them that are none."""
    seen, findings = _Walked(), []
    offset = 0
    while offset < file.num_bytes:
        try:
            offset = _step(file, offset, seen)
        except BadRecord as bad:
            # A wrong length leads to where no record starts, perhaps past good ones: search for them from the
            # record that led here on. No good record has the start of another one inside.
            inside = _next_start(file, seen.offsets[-1] + 4) if seen.offsets else None
            if inside is not None and inside < offset:
                offset, end = seen.offsets.pop(), inside
                del seen.ids[-1], seen.labels[-1]
            else:
                next_start = _next_start(file, offset + 4)
                end = file.num_bytes if next_start is None else next_start
            findings.append(
                of_file("structure", file.beside, f"bytes {offset} to {end} are no record: {bad}")
            )
            offset = end
    return seen, findings


def _step(file: RecordIOFile, offset: int, seen: _Walked) -> int:
    """Add the record at `offset`, and return the offset of its end."""
    start, end = file.peek(offset)
    header = recordio.parse_header(start)
    if len(start) < header.payload_start:
        start, _, _ = file.data(offset)
    label = recordio.parse_label(start, header)
    seen.labels.append(label if isinstance(label, float) else label.copy())  # not a view of the whole record
    seen.offsets.append(offset)
    seen.ids.append(header.id)
    seen.has_checksums |= header.has_tag
    return end


def _next_start(file: RecordIOFile, offset: int) -> int | None:
    """Return the next offset that looks like a record: a magic number at a multiple of 4, and a first frame's flag."""
    offset += -offset % 4
    with file.beside.open("rb") as raw:
        while offset < file.num_bytes:
            raw.seek(offset)
            words = np.frombuffer(raw.read(_SEARCH_BYTES + 4).ljust(8, b"\0")[: _SEARCH_BYTES + 4], np.uint8)
            words = words[: len(words) // 4 * 4].view("<u4")
            is_start = (words[:-1] == recordio.MAGIC) & (words[1:] >> 29 <= recordio.FIRST)
            if is_start.any():
                return offset + 4 * int(is_start.argmax())
            offset += _SEARCH_BYTES
    return None


def _check_index(table: RecordTable) -> list[Finding]:
    """Return the findings about the .idx, and put its keys into the table."""
    path = index_path(table.path)
    remedy = f"rebuild it with `{command_name.packer()} index {table.path}`"
    try:
        keys, offsets = recordio.parse_index(regular_files.read(path))
    except FileNotFoundError:
        return [of_file("no-index", path, f"is missing; {remedy}")]
    except OSError as error:
        return [of_file("index", path, f"cannot be read ({error.strerror})")]
    except BadRecord as bad:
        return [of_file("index", path, f"{bad}; {remedy}")]
    wrongs = list(_index_against(table, keys, offsets))
    return [of_file("index", path, f"{wrong}; {remedy}") for wrong in wrongs]


def _index_against(table: RecordTable, keys: Ints, offsets: Ints) -> Iterator[str]:
    is_record = np.isin(offsets, table.offsets)
    is_listed = np.isin(table.offsets, offsets)
    if not is_record.all():
        first = int(is_record.argmin())
        yield (
            f"is stale or another file's: {(~is_record).sum()} of its {len(keys)} lines point where no record starts "
            f"(the first: key {keys[first]}, byte {offsets[first]})"
        )
    if not is_listed.all():
        first = int(is_listed.argmin())
        yield (
            f"is incomplete: it leaves out {(~is_listed).sum()} of {len(table)} records (the first at byte "
            f"{table.offsets[first]})"
        )
    for what, values in (("keys", keys), ("offsets", offsets)):
        num_repeated = len(values) - len(np.unique(values))
        if num_repeated:
            yield f"repeats {num_repeated} of its {what}"
    numbers = np.searchsorted(table.offsets, offsets[is_record])
    ids = table.keys[numbers].copy()
    table.keys[numbers] = keys[is_record]
    if table.has_checksums and (ids != keys[is_record]).any():
        first = int((ids != keys[is_record]).argmax())
        yield (
            f"has other keys than the records ({(ids != keys[is_record]).sum()} of them; the first: key "
            f"{keys[is_record][first]} points to the record with key {ids[first]})"
        )
