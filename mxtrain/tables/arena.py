"""One process's share of a table: rows, what their optimizer remembers, and which ids they are of.

Owns where rows lie: each in a slot of arrays that grow in place (`reserved.py`), in memory or in files. A row comes to
life when it is first moved, and is what `first_values.py` says before. Nothing here knows of other processes.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from mxtrain import native
from mxtrain.core.errors import UsageError
from mxtrain.core.system import machine
from mxtrain.tables import first_values, movement
from mxtrain.tables.index import MOST_SLOTS, Index
from mxtrain.tables.options import TableOptions
from mxtrain.tables.reserved import Reserved
from mxtrain.tables.sightings import Sightings

CHUNK = 1 << 16  # slots whose memory is accounted for at a time
RESERVED_BYTES = 1 << 42  # of address space for an array, where no limit says how many rows it may have


class Arena:
    """The rows of a table that this process owns; with a `folder` in files of it."""

    def __init__(self, options: TableOptions, folder: Path | None = None):
        self.options = options
        row_bytes = 4 * options.width
        capacity = min(options.max_rows or MOST_SLOTS, MOST_SLOTS, RESERVED_BYTES // row_bytes)
        self._ids = Reserved(capacity, (), np.int64, folder)
        self._rows = Reserved(capacity, (options.width,), np.float32, folder)
        self._states = [Reserved(capacity, shape, np.float32, folder) for shape in options.state_shapes]
        self._last = Reserved(
            capacity, (), np.int32, folder
        )  # the step that has last moved it; 0: a free slot
        self._index = Index(self._ids.array)
        self._sightings = Sightings(options.admit_after) if options.admit_after > 1 else None
        self.num_slots = 0  # used by now, free ones too
        self._free: list[int] = []

    @property
    def num_rows(self) -> int:
        """The number of rows that there are."""
        return self.num_slots - len(self._free)

    @property
    def row_bytes(self) -> int:
        """The bytes of a row with its id, its optimizer's state and its last step, without the index."""
        return 8 + 4 * (self.options.width + sum(map(math.prod, self.options.state_shapes))) + 4

    @property
    def num_bytes(self) -> int:
        """The bytes of all rows that there are or were, and of the index."""
        return self.num_slots * self.row_bytes + self._index.places.nbytes

    def read(self, ids: Any, into: Any) -> None:
        """Write the rows of int64 ids, in their order; a row that is not there is read as it will begin."""
        slots = self._index.find(ids)
        if native.read_rows is not None:
            options = self.options
            step = np.float32(options.scale * 2.0 ** (1 - first_values.FRACTION_BITS))
            key = first_values.key_of(options)
            native.read_rows(self._rows.array, slots, ids, key, options.scale, float(step), into)
            return
        known = slots >= 0
        into[known] = self._rows.array[slots[known]]
        into[~known] = first_values.rows(self.options, ids[~known])

    def update(self, ids: Any, gradients: Any, step: int, rate: float) -> None:
        """Move rows by the sums of their gradients in a `step`, which counts from 1; each id is there once.

        Rows that are not there come to life, once they are admitted; gradients of others are lost.
        """
        slots = self._index.find(ids)
        absent = np.flatnonzero(slots < 0)
        if len(absent):
            admitted = absent
            if self._sightings is not None:
                admitted = absent[self._sightings.admit(ids[absent])]
            slots[admitted] = self._new_rows(ids[admitted])
            if len(admitted) < len(absent):
                known = slots >= 0
                slots, gradients = slots[known], np.ascontiguousarray(gradients[known])
        states = [each.array for each in self._states]
        movement.move(self.options, self._rows.array, states, slots, gradients, rate)
        self._last.array[slots] = step

    def expire(self, step: int) -> int:
        """Forget the rows that no step of the last `expire_after` has moved; return how many."""
        if not self.options.expire_after:
            return 0
        last = self._last.array[: self.num_slots]
        old = np.flatnonzero((last > 0) & (last <= step - self.options.expire_after))
        if len(old):
            last[old] = 0
            self._free.extend(old[::-1].tolist())  # the lowest is used first
            self._index.rebuild(np.flatnonzero(last > 0))
        return len(old)

    def _new_rows(self, ids: Any) -> Any:
        """Return slots with first values for ids that are not there."""
        count = len(ids)
        num_reused = min(count, len(self._free))
        reused = [self._free.pop() for _ in range(num_reused)]
        self._make_room(count - num_reused)
        start = self.num_slots
        slots = np.concatenate([np.array(reused, np.int64), np.arange(start, start + count - num_reused)])
        self.num_slots = start + count - num_reused
        self._ids.array[slots] = ids
        self._rows.array[slots] = first_values.rows(self.options, ids)
        for each in self._states:
            each.array[slots[:num_reused]] = 0
        self._index.insert(slots)
        return slots

    def _make_room(self, count: int) -> None:
        """Refuse rows beyond the limit, or the memory or disk that is left, before they would end the process."""
        wanted, name = self.num_slots + count, f"table {self.options.name}"
        limit = len(self._ids.array)
        if wanted > limit:
            raise UsageError(
                f"{name}: {wanted} rows are more than its limit of {limit} on a server; raise max_rows, let rows expire "
                "(expire_after) or admit fewer (admit_after)"
            )
        if self.num_slots // CHUNK == wanted // CHUNK and self.num_slots:
            return
        num_slots = min(limit, (wanted // CHUNK + 1) * CHUNK)
        try:
            for each in (self._ids, self._rows, *self._states, self._last):
                each.grow(num_slots)
        except OSError as error:
            raise UsageError(
                f"{name}: no room for {num_slots} rows ({error.strerror}); see --store-dir"
            ) from None
        if self._rows.is_in_memory:
            left, needed = machine.available_memory(), (num_slots - self.num_slots) * self.row_bytes
            if left is not None and left < needed:
                raise UsageError(
                    f"{name}: {num_slots} rows take {needed >> 20} MB more than the {self.num_bytes >> 20} MB there "
                    f"are, and {left >> 20} MB are left; give more --num-servers, or --store-dir for files on a disk"
                )
