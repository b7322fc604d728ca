"""One process's share of a table: rows, what their optimizer remembers, and which ids they are of.

Owns when a row comes to life, which is when it is first moved, and what becomes of it then; before, it is what
`first_values.py` says. Where rows lie is `records.py`'s. Nothing here knows of other processes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mxtrain import native
from mxtrain.tables import first_values, movement
from mxtrain.tables.options import TableOptions
from mxtrain.tables.records import Column, Records
from mxtrain.tables.sightings import Sightings

ROW = "row"  # the column of what is read; those of the optimizer are numbered


class LastRead(NamedTuple):
    """The ids that were read last, as a step mostly moves what it has read."""

    ids: Any
    slots: Any
    version: int  # of the index


class Arena:
    """The rows of a table that this process owns; with a `folder` in files of it."""

    def __init__(self, options: TableOptions, folder: Path | None = None):
        self.options = options
        name = f"table {options.name}"
        states = [Column(f"state{number}", shape, "<f4") for number, shape in enumerate(options.state_shapes)]
        self.records = Records(
            name, [Column(ROW, (options.width,), "<f4"), *states], options.max_rows, folder
        )
        self.rows = self.records.columns[ROW]
        self._states = [self.records.columns[each.name] for each in states]
        self.sightings = Sightings(name, options.admit_after) if options.admit_after > 1 else None
        self._last_read: LastRead | None = None

    @property
    def step(self) -> int:
        """The last step that has moved rows, be it before the arena was read from files."""
        return self.records.step

    @property
    def num_rows(self) -> int:
        """The number of rows that there are."""
        return len(self.records)

    @property
    def num_bytes(self) -> int:
        """The bytes of all rows that there are, and of what is noted of others."""
        return self.records.num_bytes + (self.sightings.records.num_bytes if self.sightings else 0)

    def read(self, ids: Any, into: Any) -> None:
        """Write the rows of int64 ids, in their order; a row that is not there is read as it will begin."""
        slots = self.records.index.find(ids)
        self._last_read = LastRead(ids, slots, self.records.index.version)
        self._read(slots, ids, into)

    def update(self, ids: Any, gradients: Any, step: int, rate: float, factor: float = 1.0) -> None:
        """Move rows by `factor` times the sums of their gradients in a `step`; each id is there once.

        Steps count up from 1. Rows that are not there come to life, once they are admitted; gradients of others are
        lost.
        """
        with self.records.changing:
            self.records.begin_step(step)
            slots = self._slots_of(ids)
            absent = np.flatnonzero(slots < 0)
            admitted = absent
            if self.sightings is not None:
                admitted = absent[self.sightings.admit(ids[absent], step)]
            slots[admitted] = self._new_rows(ids[admitted])
            if len(admitted) < len(absent):
                is_there = slots >= 0
                slots, gradients = slots[is_there], np.ascontiguousarray(gradients[is_there])
            self.records.use(slots, step)
            movement.move(self.options, self.rows, self._states, slots, gradients, rate, factor)

    def expire(self, step: int) -> int:
        """Forget the rows that no step of the last `expire_after` has used, and sightings; return how many rows."""
        if not self.options.expire_after:
            return 0
        last = step - self.options.expire_after
        if self.sightings is not None:
            with self.sightings.records.changing:
                self.sightings.records.forget_until(last)
        with self.records.changing:
            return self.records.forget_until(last)

    def _slots_of(self, ids: Any) -> Any:
        """Return slots, -1 for a row that is not there; those of the last read where these ids are the same."""
        last, self._last_read = self._last_read, None
        if last is not None and last.version == self.records.index.version and np.array_equal(last.ids, ids):
            return last.slots
        return self.records.index.find(ids)

    def _new_rows(self, ids: Any) -> Any:
        """Return slots with first values for ids that are not there."""
        slots = self.records.add(ids)
        if len(slots):
            self._read(np.full(len(ids), -1), ids, self.rows[slots[0] : slots[-1] + 1])
        return slots

    def _read(self, slots: Any, ids: Any, into: Any) -> None:
        """Write the rows of slots; for those of -1 the first values of their ids."""
        if native.read_rows is not None:
            step, key = first_values.step_of(self.options), first_values.key_of(self.options)
            native.read_rows(self.rows, slots, ids, key, self.options.scale, step, into)
            return
        is_there = slots >= 0
        into[is_there] = self.rows[slots[is_there]]
        into[~is_there] = first_values.rows(self.options, ids[~is_there])
