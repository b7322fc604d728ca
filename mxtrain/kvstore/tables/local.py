"""The owner of all rows in the one process that trains: `TableOwners` that need no connection."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Callable, Sequence

from mxtrain.data.fields import Array
from mxtrain.kvstore.tables.owner import RowGradients
from mxtrain.kvstore.tables.share import TableShare
from mxtrain.optim.update import Update
from mxtrain.tables.options import TableOptions


class Awaited:
    """Rows that are read when they are waited for."""

    def __init__(self, share: TableShare, ids: Array):
        self._share, self._ids = share, ids
        self.arrived: float | None = None

    def wait(self) -> Array:
        rows = self._share.rows(self._ids)
        self.arrived = time.monotonic()
        return rows


class LocalTables:
    """The `TableOwners` of tables of these options, in this process; with a `folder` in files of it."""

    def __init__(self, tables: Sequence[TableOptions], folder: Path | None = None):
        self.shares = [TableShare(each, folder=folder) for each in tables]

    def pull(self, table: int, ids: Array) -> Awaited:
        return Awaited(self.shares[table], ids)

    prefetch = pull  # whose rows are read when they are waited for, here after the update

    def push(self, table: int, gradients: RowGradients) -> None:
        self.shares[table].add(gradients)

    def finish(self) -> int | None:
        return total_of([share.finish().squares for share in self.shares])

    def apply(self, update: Update) -> None:
        for share in self.shares:
            share.apply(update)

    def drop(self) -> None:
        for share in self.shares:
            share.drop()

    def num_rows(self, table: int) -> int:
        return self.shares[table].arena.num_rows

    def begin(self, folder: Path, previous: Path | None) -> None:
        begin(self.shares, folder, previous)

    def write(self, report_progress: Callable[[], None]) -> dict[str, Any]:
        return write(self.shares, report_progress)

    def read(self, folder: Path) -> None:
        for share in self.shares:
            share.files.read(folder)


def begin(shares: Sequence[TableShare], folder: Path, previous: Path | None) -> None:
    """Begin to write shares as they are into a folder."""
    for share in shares:
        share.files.begin(folder, previous)


def write(shares: Sequence[TableShare], report_progress: Callable[[], None]) -> dict[str, Any]:
    """Write what was begun; return the sums of all files, by their names."""
    return {name: of_file for share in shares for name, of_file in share.files.write(report_progress).items()}


def total_of(squares: Sequence[int | None]) -> int | None:
    """Return the sum of squares; None where one of them is none."""
    known = [each for each in squares if each is not None]
    return sum(known) if len(known) == len(squares) else None
