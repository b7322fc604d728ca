"""The files of a table in a checkpoint: those of each share, whole or as what has changed since a base.

Owns which files there are and how they make up a table again, be it in another number of shares. A base that has
already been written is linked into the new checkpoint, which so stays whole when the old one is deleted.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, Callable, NamedTuple
from urllib.parse import quote

import numpy as np

from mxtrain.core.errors import DataError, UsageError
from mxtrain.tables import placement, row_format
from mxtrain.tables.arena import Arena
from mxtrain.tables.records import Records
from mxtrain.tables.row_format import Header, RowFile
from mxtrain.tables.snapshot import Snapshot

ROWS, SIGHTINGS = "rows", "sightings"
INCREMENT = "increment"
MOST_CHANGED = 0.25  # of the records: with more all are written again


class Base(NamedTuple):
    """A file of all records at a step, and its sum."""

    step: int
    sum: dict[str, Any]


class _Begun(NamedTuple):
    """A file that is to be written."""

    path: Path
    header: Header
    snapshot: Snapshot


def file_name(table: str, content: str, share: int, num_shares: int, is_increment: bool = False) -> str:
    """Return the name of a share's file; what is no letter or digit in a table's name is written as in URLs."""
    end = f".{INCREMENT}" if is_increment else ""
    return f"{_quoted(table)}.{share}-of-{num_shares}.{content}{end}"


class ShareFiles:
    """The files of an arena, which is share `share` of `num_shares` of its table."""

    def __init__(self, arena: Arena, share: int = 0, num_shares: int = 1):
        self._arena, self._share, self._num_shares = arena, share, num_shares
        self._bases: dict[str, Base] = {}  # by content
        self._begun: list[_Begun] = []
        self._linked: dict[str, dict[str, Any]] = {}

    def begin(self, folder: Path, previous: Path | None = None) -> None:
        """Begin to write what the arena is now into `folder`; `write` does it, while the arena goes on changing.

        `previous` is the folder of the last checkpoint, whose files may become the base of this one's.
        """
        self._linked = {}
        for content, records in self._contents().items():
            name, base = self._name(content), self._bases.get(content)
            if base and not base.step:  # which means that there is none
                base = None
            changed = records.ids_used_after(base.step) if base and previous else None
            is_little = changed is not None and len(changed) <= MOST_CHANGED * len(records)
            if base and previous and is_little and _link(previous / name, folder / name, base):
                self._linked[name] = base.sum
                name = self._name(content, is_increment=True)
                snapshot = records.snapshot(base.step, changed)
            else:
                snapshot = records.snapshot()
            self._begun.append(_Begun(folder / name, self._header(content, snapshot), snapshot))

    def write(self, report_progress: Callable[[], None] = lambda: None) -> dict[str, dict[str, Any]]:
        """Write what was begun, from any thread; return the sums of all files of this share, by their names."""
        sums = dict(self._linked)
        try:
            for path, header, snapshot in self._begun:
                with contextlib.closing(snapshot):
                    sums[path.name] = row_format.write(path, header, snapshot.pieces(), report_progress)
                if not header.base_step:
                    self._bases[header.content] = Base(header.step, sums[path.name])
        finally:
            self.cancel()
        return sums

    def cancel(self) -> None:
        """Leave unwritten what was begun."""
        for each in self._begun:
            each.snapshot.close()
        self._begun = []

    def read(self, folder: Path) -> None:
        """Fill the arena, which is empty, from the files of all shares in a folder, however many wrote them."""
        for content, records in self._contents().items():
            shares = shares_of(folder, self._arena.options.name, content)
            num_readers = self._num_shares
            if len(shares) == self._num_shares:
                shares, num_readers = [shares[self._share]], 1
            num_records = sum(row_file.num_records for share in shares for row_file in share)
            records.index.reserve(num_records // num_readers)
            for share in shares:
                self._read_share(content, records, share)

    def _read_share(self, content: str, records: Records, share: list[RowFile]) -> None:
        base = share[-1].header
        forgotten_step = max(each.header.forgotten_step for each in share)
        for row_file in share:
            self._check(row_file, records)
            for piece in row_format.read(row_file):
                records.insert(piece[self._is_own(piece, forgotten_step)])
        records.step = max(records.step, *(each.header.step for each in share))
        records.forgotten_step = max(records.forgotten_step, forgotten_step)
        if (base.share, base.num_shares) == (self._share, self._num_shares):
            self._bases[content] = Base(base.step, row_format.sum_of(share[-1]))

    def _is_own(self, piece: Any, forgotten_step: int) -> Any:
        """Return which records belong into this share and are not forgotten, nor of ids that have come to life."""
        ids = np.ascontiguousarray(piece["id"])
        is_own = (placement.share_of(ids, self._num_shares) == self._share) & (piece["last"] > forgotten_step)
        if "count" in piece.dtype.names:
            is_own &= self._arena.records.index.find(ids) < 0
        return is_own

    def _check(self, row_file: RowFile, records: Records) -> None:
        header = row_file.header
        if header.dtype != records.dtype:
            own, saved = self._arena.options, header.table
            raise UsageError(
                f"{row_file.path}: rows of {saved.width} numbers that {saved.optimizer} moves, and table {own.name} "
                f"has {own.width}, that {own.optimizer} moves; give it the width and the optimizer that it had"
            )

    def _contents(self) -> dict[str, Records]:
        sightings = self._arena.sightings
        return {ROWS: self._arena.records, **({SIGHTINGS: sightings.records} if sightings else {})}

    def _name(self, content: str, is_increment: bool = False) -> str:
        return file_name(self._arena.options.name, content, self._share, self._num_shares, is_increment)

    def _header(self, content: str, snapshot: Snapshot) -> Header:
        columns = row_format.columns_of(self._contents()[content].dtype)
        steps = (snapshot.step, snapshot.base_step, snapshot.forgotten_step)
        return Header(self._arena.options, content, self._share, self._num_shares, *steps, columns)


def has_rows(folder: Path, table: str) -> bool:
    """Return whether a folder has rows of a table."""
    return any(folder.glob(f"{_quoted(table)}.*-of-*.{ROWS}"))


def shares_of(folder: Path, table: str, content: str = ROWS) -> list[list[RowFile]]:
    """Return the files of a table in a folder, share by share, in each the newest first.

    DataError where one is missing; an empty list where sightings are, which not every table has.
    """
    found = [row_format.opened(path) for path in folder.glob(f"{_quoted(table)}.*-of-*.{content}*")]
    if not found and content == SIGHTINGS:
        return []
    num_shares = max((each.header.num_shares for each in found), default=1)
    shares = []
    for share in range(num_shares):
        names = [file_name(table, content, share, num_shares, is_increment) for is_increment in (True, False)]
        of_share = [each for name in names for each in found if each.path.name == name]
        if not of_share or of_share[-1].header.step != (
            of_share[0].header.base_step or of_share[-1].header.step
        ):
            raise DataError(
                f"{folder / names[1]}: not there, or not what {names[0]} goes on from; put it there"
            )
        shares.append(of_share)
    return shares


def _link(source: Path, target: Path, base: Base) -> bool:
    """Give a base another name; return whether that could be done."""
    try:
        os.link(source, target)
    except OSError:
        return False
    if target.stat().st_size == base.sum["bytes"]:
        return True
    target.unlink()
    return False


def _quoted(table: str) -> str:
    return quote(table, safe="").replace(".", "%2E")
