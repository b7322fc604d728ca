"""The rows of a table in a checkpoint, read where they lie: for `evaluate` and `predict`.

A row file is in the order of hashes, which are spread evenly, so a record is near the place that its hash says, and no
index is needed. In memory is what was looked at, until it is given back.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np

from mxtrain.tables import first_values, placement, row_files, row_format
from mxtrain.tables.arena import ROW
from mxtrain.tables.hashing import hashes_of
from mxtrain.tables.row_format import RowFile

AT_A_TIME = (
    1 << 12
)  # ids that are looked for before the pages of files are given back, a few of them for each
HALVED = (
    4  # one turn in so many halves what is left, in case hashes are not spread as evenly as they should be
)


class MappedTable:
    """A table in a folder; a row that is not there is as it would begin."""

    def __init__(self, folder: Path, name: str):
        shares = row_files.shares_of(folder, name)
        self.options = shares[0][0].header.table
        self._shares = [[_MappedFile(each) for each in share] for share in shares]
        self._forgotten_steps = [max(each.header.forgotten_step for each in share) for share in shares]

    def rows(self, ids: Any) -> Any:
        """Return the rows of int64 ids, in their order."""
        rows = first_values.rows(self.options, ids)
        for share, positions in enumerate(placement.split(ids, len(self._shares))):
            for start in range(0, len(positions), AT_A_TIME):
                part = positions[start : start + AT_A_TIME]
                self._read(share, ids[part], rows, part)
        return rows

    def _read(self, share: int, ids: Any, rows: Any, positions: Any) -> None:
        """Write rows of a share at their positions, but for those that are not there."""
        for file in self._shares[share]:  # the newest first
            places = file.find(ids)
            is_there = places >= 0
            records = file.records[places[is_there]]
            is_alive = records["last"] > self._forgotten_steps[share]
            rows[positions[is_there][is_alive]] = records[ROW][is_alive]
            ids, positions = ids[~is_there], positions[~is_there]
            file.give_back()


class _MappedFile:
    """The records of a file, by ascending hash."""

    def __init__(self, row_file: RowFile):
        self.records = row_format.mapped(row_file)
        self._advise(mmap.MADV_RANDOM)

    def find(self, ids: Any) -> Any:
        """Return the place of each id's record, -1 where there is none."""
        places: Any = np.full(len(ids), -1)
        # Of ids that are looked for: the first place that may be theirs and the one behind the last, and the hashes
        # below the first and at the other one.
        hashes, left = hashes_of(ids), np.arange(len(ids))
        low: Any = np.zeros(len(ids), np.int64)
        high: Any = np.full(len(ids), len(self.records))
        below: Any = np.zeros(len(ids))
        above: Any = np.full(len(ids), 2.0**64)
        turn = 0
        while True:
            goes_on = low < high
            left, hashes, low, high, below, above = (
                each[goes_on] for each in (left, hashes, low, high, below, above)
            )
            if not len(left):
                return places
            turn += 1
            part = (hashes - below) / np.maximum(above - below, 1) if turn % HALVED else 0.5
            middle = np.clip(low + (part * (high - low)).astype(np.int64), low, high - 1)
            here = hashes_of(self.records["id"][middle])
            is_before, is_it = here < hashes, here == hashes
            places[left[is_it]] = middle[is_it]
            low, below = np.where(is_before, middle + 1, low), np.where(is_before, here, below)
            high, above = np.where(is_before, high, middle), np.where(is_before, above, here)
            high = np.where(is_it, low, high)

    def give_back(self) -> None:
        """Let go of the pages of the file that are in memory."""
        self._advise(mmap.MADV_DONTNEED)

    def _advise(self, advice: int) -> None:
        if isinstance(self.records, np.memmap):
            self.records._mmap.madvise(advice)  # type: ignore[attr-defined]
