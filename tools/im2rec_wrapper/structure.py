"""The frame of a .rec, byte for byte, whatever is damaged; and its .idx held against it.

Owns where each record stands and what its header says. The bytes inside are looked at by `pictures.py`. Unlike
`mxtrain.data.records`, which stops at the first damage, this goes on behind it: all of it is wanted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Iterator, NamedTuple

import numpy as np

from mxtrain.data import recordio
from mxtrain.data.recordio import BadRecord, Ints, Label
from mxtrain.data.records import RecordFile, index_path
from tools.im2rec_wrapper.findings import Finding, Place, of_file

_SEARCH_BYTES = 1 << 20


class Table(NamedTuple):
    """Every record that has a frame and a header, in the order of the file."""

    path: Path
    offsets: Ints
    keys: Ints
    labels: list[Label]
    has_checksums: bool  # one tag seen means that all records must have theirs

    def __len__(self) -> int:
        return len(self.offsets)

    def place(self, number: int) -> Place:
        return Place(self.path, number, int(self.keys[number]), int(self.offsets[number]))


class _Seen(NamedTuple):
    offset: int
    end: int
    header: recordio.Header
    label: Label


def read_table(file: RecordFile) -> tuple[Table, list[Finding]]:
    """The records, with the keys of the .idx where it lists them, and what is wrong with frames and .idx."""
    seen, findings = _walk(file)
    ids = [record.header.id for record in seen]
    is_key = len(set(ids)) == len(ids) and all(number < 1 << 63 for number in ids)
    table = Table(
        file.path,
        np.array([record.offset for record in seen], np.int64),
        np.array(ids if is_key else range(len(ids)), np.int64),
        [record.label for record in seen],
        any(record.header.has_tag for record in seen),
    )
    if table.has_checksums and len(set(ids)) < len(ids):
        findings.append(_repeated(table, ids))
    return table, findings + _check_index(table)


def _repeated(table: Table, ids: list[int]) -> Finding:
    """Records go by their keys, and these have some twice: files put one behind the other, or damage."""
    _, first_of, counts = np.unique(np.array(ids, np.uint64), return_index=True, return_counts=True)
    at = int(first_of[counts.argmax()])
    num = int((counts - 1).sum())
    text = f"{num} records have another one's key (that of record {at}, {ids[at]}, is there {counts.max()} times)"
    return of_file("structure", table.path, f"{text}: pack it again")


def _walk(file: RecordFile) -> tuple[list[_Seen], list[Finding]]:
    """All records that stand one behind the other from the first byte to the last, and the bytes between."""
    seen: list[_Seen] = []
    findings: list[Finding] = []
    offset = 0
    while offset < file.num_bytes:
        try:
            seen.append(_look(file, offset))
            offset = seen[-1].end
        except BadRecord as bad:
            # A false length leads to where no record starts, perhaps past good ones: look for them behind the
            # record that led here. No good record has a start of another one inside.
            if seen and (found := _next_start(file, seen[-1].offset + 4)) is not None and found < offset:
                offset = seen.pop().offset
            else:
                found = _next_start(file, offset + 4)
            end = file.num_bytes if found is None else found
            findings.append(of_file("structure", file.path, f"bytes {offset} to {end} are no record: {bad}"))
            offset = end
    return seen, findings


def _look(file: RecordFile, offset: int) -> _Seen:
    start, end = file.look(offset)
    header = recordio.parse_header(start)
    if len(start) < header.payload_start:
        start, _, _ = file.data(offset)
    return _Seen(offset, end, header, recordio.parse_label(start, header))


def _next_start(file: RecordFile, offset: int) -> int | None:
    """Where the next record seems to start: the magic number, at a multiple of 4, with a first part's flag."""
    offset += -offset % 4
    with file.path.open("rb") as raw:
        while offset < file.num_bytes:
            raw.seek(offset)
            words = np.frombuffer(raw.read(_SEARCH_BYTES + 4).ljust(8, b"\0")[: _SEARCH_BYTES + 4], np.uint8)
            words = words[: len(words) // 4 * 4].view("<u4")
            is_start = (words[:-1] == recordio.MAGIC) & (words[1:] >> 29 <= recordio.FIRST)
            if is_start.any():
                return offset + 4 * int(is_start.argmax())
            offset += _SEARCH_BYTES
    return None


def _check_index(table: Table) -> list[Finding]:
    """What is wrong with the .idx; its keys are put into the table."""
    path = index_path(table.path)
    remedy = f"rebuild it with `python -m tools.im2rec_wrapper index {table.path}`"
    try:
        keys, offsets = recordio.parse_index(path.read_bytes())
    except FileNotFoundError:
        return [of_file("no-index", path, f"is missing; {remedy}")]
    except OSError as error:
        return [of_file("index", path, f"cannot be read ({error.strerror})")]
    except BadRecord as bad:
        return [of_file("index", path, f"{bad}; {remedy}")]
    wrongs = list(_index_against(table, keys, offsets))
    return [of_file("index", path, f"{wrong}; {remedy}") for wrong in wrongs]


def _index_against(table: Table, keys: Ints, offsets: Ints) -> Iterator[str]:
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
