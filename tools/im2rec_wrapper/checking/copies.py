"""The search for copies: within a set, where a picture weighs double, or across sets, where validation is too good.

A set is a file, or all shards of one (`train-00000-of-00004.rec` and so on). Does not own what makes two pictures
copies (`fingerprints.py`).
"""

from __future__ import annotations

import re
from array import array
from pathlib import Path
from typing import Sequence

import numpy as np

from mxtrain.data.packing.pictures import fingerprints
from mxtrain.data.packing.pictures.fingerprints import Pair
from mxtrain.data.records.recordio import Ints, Label

from .contents import Content
from .findings import Finding, RecordLocation, of_pair
from .structure import RecordTable

_SHARD = re.compile(r"-\d+-of-\d+$")
_THUMBNAIL_BYTES = 3 * fingerprints.THUMBNAIL_SIDE**2

MOST_NUMBERS = 8  # of a label that are told


class CopyFinder:
    """Collects the fingerprints of all records, 80 bytes each, and then finds those that agree."""

    def __init__(self) -> None:
        self._tables: list[RecordTable] = []
        self._table_of = array("q")
        self._numbers = array("q")
        self._digests = array("Q")
        self._hashes = array("Q")
        self._thumbnails = bytearray()

    def start(self, table: RecordTable) -> None:
        """Begin a file: the records added next are those of its table."""
        self._tables.append(table)

    def add(self, number: int, content: Content) -> None:
        """Add the fingerprints of a record."""
        self._table_of.append(len(self._tables) - 1)
        self._numbers.append(number)
        self._digests.append(content.digest)
        if content.hash is not None and content.thumbnail is not None:
            self._hashes.append(content.hash)
            self._thumbnails += content.thumbnail.tobytes()

    def findings(self) -> list[Finding]:
        """Return a finding for each pair of copies."""
        set_of_table = _set_numbers([table.path for table in self._tables])
        sets = set_of_table[np.array(self._table_of, np.int64)]
        digests, hashes = (np.array(column, np.uint64) for column in (self._digests, self._hashes))
        thumbnails = np.frombuffer(self._thumbnails, np.uint8).reshape(-1, _THUMBNAIL_BYTES)
        exact, near = fingerprints.pairs_of(digests, hashes, thumbnails, sets)
        found = [self._finding("leak", "duplicate", "the same payload as", pair, sets) for pair in exact]
        relation = "nearly the same picture as"
        return found + [self._finding("near-leak", "near-duplicate", relation, pair, sets) for pair in near]

    def _finding(self, between: str, within: str, relation: str, pair: Pair, sets: Ints) -> Finding:
        first, later = pair
        fault = within if sets[first] == sets[later] else between
        labels = self._label(first), self._label(later)
        if not np.array_equal(*labels):
            relation = f"{_text(labels[1])}, but {relation} one that is {_text(labels[0])},"
        digests = (
            fingerprints.digest_text(self._digests[first]),
            fingerprints.digest_text(self._digests[later]),
        )
        return of_pair(fault, self._location(first), self._location(later), relation, digests)

    def _location(self, item: int) -> RecordLocation:
        return self._tables[self._table_of[item]].location(self._numbers[item])

    def _label(self, item: int) -> Label:
        return self._tables[self._table_of[item]].labels[self._numbers[item]]


def _text(label: Label) -> str:
    if isinstance(label, float):
        return f"labelled {label:g}"
    return f"labelled {label.tolist()}" if len(label) <= MOST_NUMBERS else f"labelled by {len(label)} numbers"


def _set_numbers(paths: Sequence[Path]) -> Ints:
    """Return the number of each path's set."""
    names = [path.resolve().with_name(_SHARD.sub("", path.stem)) for path in paths]
    return np.array([names.index(name) for name in names], np.int64)
