"""The owner of all rows in the one process that trains: `TableOwners` that need no connection."""

from __future__ import annotations

from typing import Sequence

from mxtrain.data.fields import Array
from mxtrain.kvstore.tables.owner import RowGradients
from mxtrain.kvstore.tables.share import TableShare
from mxtrain.optim.update import Update


class Arrived:
    """Rows that are there."""

    def __init__(self, rows: Array):
        self._rows = rows

    def wait(self) -> Array:
        return self._rows


class Awaited:
    """Rows that are read when they are waited for."""

    def __init__(self, share: TableShare, ids: Array):
        self._share, self._ids = share, ids

    def wait(self) -> Array:
        return self._share.rows(self._ids)


class LocalTables:
    """The `TableOwners` of tables whose rows all lie in these shares."""

    def __init__(self, shares: Sequence[TableShare]):
        self.shares = list(shares)

    def pull(self, table: int, ids: Array) -> Arrived:
        return Arrived(self.shares[table].rows(ids))

    def prefetch(self, table: int, ids: Array) -> Awaited:
        return Awaited(self.shares[table], ids)

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


def total_of(squares: Sequence[int | None]) -> int | None:
    """Return the sum of squares; None where one of them is none."""
    known = [each for each in squares if each is not None]
    return sum(known) if len(known) == len(squares) else None
