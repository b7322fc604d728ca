"""The tables of a net in training: rows for each micro-batch, and its gradients, given back to the rows' owners.

Owns when rows are asked for: those of a micro-batch to come while the one before is computed, as far as a table's
`field` tells them; others when the net asks. The owners are `kvstore/tables/`'s.
"""

from __future__ import annotations

import dataclasses
import time
from typing import NamedTuple, Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.data.loading.loader import Batch
from mxtrain.kvstore.tables.owner import RowGradients, RowPull, TableOwners
from mxtrain.models.nets.table import Table, lookup_of
from mxtrain.optim.update import Update
from mxtrain.runtime.types import Device


class Ahead(NamedTuple):
    """Rows that were asked for, and when."""

    ids: Array
    pull: RowPull
    began: float


@dataclasses.dataclass(frozen=True)
class RowSeconds:
    """The time in which rows travelled: while the net waited for them, and while it computed something else."""

    waited: float = 0.0
    hidden: float = 0.0

    def __add__(self, other: RowSeconds) -> RowSeconds:
        return RowSeconds(self.waited + other.waited, self.hidden + other.hidden)


class TableRows:
    """The rows of one table, from its owners."""

    def __init__(self, owners: TableOwners, number: int):
        self._owners, self._number = owners, number
        self._ahead: list[Ahead] = []  # for micro-batches of this step
        self._next: list[Ahead] = []  # and of the one after it
        self.seconds = RowSeconds()

    def ask(self, ids: Array, is_next_step: bool) -> None:
        """Ask for the rows of a micro-batch to come, of this step or of the next one, by its distinct ids."""
        began = time.monotonic()
        if is_next_step:
            self._next.append(Ahead(ids, self._owners.prefetch(self._number, ids), began))
        else:
            self._ahead.append(Ahead(ids, self._owners.pull(self._number, ids), began))

    def rows(self, ids: Array) -> Array:
        """Return the rows of ids, each of which is there once."""
        needed = time.monotonic()
        ahead = next((each for each in self._ahead if np.array_equal(each.ids, ids)), None)
        if ahead is None:
            ahead = Ahead(ids, self._owners.pull(self._number, ids), needed)
        self._ahead = [each for each in self._ahead if each is not ahead]
        rows = ahead.pull.wait()
        self.seconds += RowSeconds(
            waited=time.monotonic() - needed, hidden=min(ahead.pull.arrived or needed, needed) - ahead.began
        )
        return rows

    def end_step(self) -> int:
        """Forget what was asked for in vain, as the rows have moved; return how many micro-batches are to come."""
        self._ahead, self._next = self._next, []
        return len(self._ahead)


class StepTables:
    """The tables of a net, in their order among the owners'."""

    def __init__(self, tables: Sequence[Table], owners: TableOwners):
        self.tables, self.owners = list(tables), owners
        self.rows = [TableRows(owners, number) for number in range(len(tables))]
        for table, source in zip(self.tables, self.rows):
            table.source = source

    def ask(self, batches: Sequence[Batch], is_next_step: bool) -> None:
        """Ask for the rows of micro-batches to come."""
        for batch in batches:
            for table, source in zip(self.tables, self.rows):
                ids = batch.arrays.get(table.field)
                if ids is not None:
                    lookup = lookup_of(np.array(ids, np.int64).reshape(-1))
                    table.expected.append(lookup)
                    source.ask(lookup.distinct, is_next_step)

    def take_seconds(self) -> RowSeconds:
        """Return in which time rows have travelled since the last call."""
        found = sum((each.seconds for each in self.rows), RowSeconds())
        for each in self.rows:
            each.seconds = RowSeconds()
        return found

    def begin(self, device: Device) -> None:
        """Forget what was looked up on a device before, of which no gradients are wanted."""
        for table in self.tables:
            table.take_uses(device)

    def push(self, device: Device, position: int) -> None:
        """Give the owners what a micro-batch, computed on a device, made of gradients."""
        for number, table in enumerate(self.tables):
            for place, use in enumerate(table.take_uses(device)):
                if len(use.ids):
                    gradients = RowGradients(position, place, use.ids, use.gradients(), are_distinct=True)
                    self.owners.push(number, gradients)

    def finish(self) -> int | None:
        """Wait for all workers' gradients; see `TableOwners.finish`."""
        return self.owners.finish()

    def apply(self, update: Update) -> None:
        """Move the rows."""
        self.owners.apply(update)
        self._end_step()

    def drop(self) -> None:
        """Leave the rows as they are."""
        self.owners.drop()
        self._end_step()

    def _end_step(self) -> None:
        for table, source in zip(self.tables, self.rows):
            num_to_come = source.end_step()
            table.expected = table.expected[len(table.expected) - num_to_come :]
