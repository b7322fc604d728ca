"""The rows of a table in a checkpoint, read where they lie: for `evaluate` and `predict`.

A row file is in the order of hashes, which are spread evenly, so a record is near the place that its hash says, and no
index is needed. Files are not mapped: Linux would map much around each of the few bytes that are looked at.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from mxtrain import native
from mxtrain.tables import first_values, placement, row_files, row_format
from mxtrain.tables.arena import ROW
from mxtrain.tables.hashing import hashes_of
from mxtrain.tables.row_format import RowFile

# One turn in so many halves what is left, in case hashes are not spread as evenly as they should be.
HALVED = 4


class SavedTable:
    """A table in a folder; a row that is not there is as it would begin."""

    def __init__(self, folder: Path, name: str):
        shares = row_files.shares_of(folder, name)
        self.options = shares[0][0].header.table
        self._shares = [[_SavedRecords(each) for each in share] for share in shares]
        self._forgotten_steps = [max(each.header.forgotten_step for each in share) for share in shares]

    def rows(self, ids: Any) -> Any:
        """Return the rows of int64 ids, in their order."""
        rows = first_values.rows(self.options, ids)
        for share, positions in enumerate(placement.split(ids, len(self._shares))):
            for file in self._shares[share]:  # the newest first
                is_there, records = file.find(ids[positions])
                is_alive = records["last"] > self._forgotten_steps[share]
                rows[positions[is_there][is_alive]] = records[ROW][is_alive]
                positions = positions[~is_there]
        return rows


def whole(folder: Path, name: str) -> tuple[Any, Any]:
    """Return the ids of all rows of a table in a folder, ascending, and the rows."""
    ids, rows = [], []
    for share in row_files.shares_of(folder, name):
        forgotten_step = max(each.header.forgotten_step for each in share)
        newer: Any = np.zeros(0, np.int64)
        for row_file in share:  # an increment before its base
            records = np.concatenate([np.zeros(0, row_file.header.dtype), *row_format.read(row_file)])
            is_alive = ~np.isin(records["id"], newer) & (records["last"] > forgotten_step)
            ids.append(records["id"][is_alive])
            rows.append(records[ROW][is_alive])
            newer = records["id"]
    all_ids, all_rows = np.concatenate(ids), np.concatenate(rows)
    order = np.argsort(all_ids)
    return all_ids[order], all_rows[order]


class _SavedRecords:
    """The records of a file, by ascending hash."""

    def __init__(self, row_file: RowFile):
        self._dtype, self._start = row_file.header.dtype, row_file.start
        self._size = self._dtype.itemsize
        self._num_records = row_file.num_records
        self._file = row_file.path.open("rb", buffering=0)
        os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)

    def find(self, ids: Any) -> tuple[Any, Any]:
        """Return of each id whether it has a record, and the records that there are, in their order."""
        if native.find_records is None:
            numbers = self._numbers(ids)
            return numbers >= 0, np.frombuffer(self._bytes_at(numbers[numbers >= 0], self._size), self._dtype)
        are_there, records = np.empty(len(ids), np.bool_), np.empty(len(ids), self._dtype)
        place = (self._file.fileno(), self._start, self._size, self._num_records)
        native.find_records(*place, ids, are_there.view(np.uint8), records.view(np.uint8))
        return are_there, records[are_there]

    def _numbers(self, ids: Any) -> Any:
        """Return the number of each id's record, -1 where there is none."""
        numbers: Any = np.full(len(ids), -1)
        # Of ids that are looked for: the first record that may be theirs and the one behind the last, and the hashes
        # below the first and at the other one.
        hashes, left = hashes_of(ids), np.arange(len(ids))
        low: Any = np.zeros(len(ids), np.int64)
        high: Any = np.full(len(ids), self._num_records)
        below: Any = np.zeros(len(ids))
        above: Any = np.full(len(ids), 2.0**64)
        turn = 0
        while True:
            goes_on = low < high
            left, hashes, low, high, below, above = (
                each[goes_on] for each in (left, hashes, low, high, below, above)
            )
            if not len(left):
                return numbers
            turn += 1
            part = (hashes - below) / np.maximum(above - below, 1) if turn % HALVED else 0.5
            middle = np.clip(low + (part * (high - low)).astype(np.int64), low, high - 1)
            # Records begin with their ids.
            here = hashes_of(np.frombuffer(self._bytes_at(middle, 8), np.int64))
            is_before, is_it = here < hashes, here == hashes
            numbers[left[is_it]] = middle[is_it]
            low, below = np.where(is_before, middle + 1, low), np.where(is_before, here, below)
            high, above = np.where(is_before, high, middle), np.where(is_before, above, here)
            high = np.where(is_it, low, high)

    def _bytes_at(self, numbers: Any, count: int) -> bytes:
        """Return the first bytes of the records of these numbers, one behind the other."""
        number = self._file.fileno()
        offsets = (self._start + numbers * self._size).tolist()
        return b"".join([os.pread(number, count, offset) for offset in offsets])
