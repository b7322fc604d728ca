"""Records by ids, which grow in place and lie without gaps: the rows of a share, or what is noted of ids without rows.

Owns in which slot a record lies, when it was last used, and forgetting. A record is an id, the step that last used it
(0: it is forgotten, or about to be used for the first time) and columns of numbers, each an array by slot.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, NamedTuple, Sequence

import numpy as np

from mxtrain import native
from mxtrain.core.errors import UsageError
from mxtrain.core.system import machine
from mxtrain.tables.index import MOST_SLOTS, Index
from mxtrain.tables.reserved import Reserved
from mxtrain.tables.snapshot import Snapshot

CHUNK = 1 << 16  # slots for which room is made at a time
SCAN = 1 << 20  # slots that are looked through at a time
RESERVED_BYTES = 1 << 40  # of address space for a column
SPARE_BYTES = 256 << 20  # of memory that are not for rows, but for whatever else runs here


class Column(NamedTuple):
    """The numbers of a column: of each record one of this shape."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class Records:
    """Records with these columns, up to `limit` of them if there is one; with a `folder` in files of it.

    Whoever changes them holds `changing`, so that a snapshot can be taken beside it. `name` is for messages.
    """

    def __init__(self, name: str, columns: Sequence[Column], limit: int = 0, folder: Path | None = None):
        self._name, self._limit = name, limit
        fields = [Column("id", (), "<i8"), Column("last", (), "<i4"), *columns]
        self.dtype = np.dtype([(each.name, each.dtype, each.shape) for each in fields])
        widest = max(self.dtype[each.name].itemsize for each in fields)
        capacity = min(limit or MOST_SLOTS, MOST_SLOTS, RESERVED_BYTES // widest)
        try:
            self._reserved = [Reserved(capacity, each.shape, each.dtype, folder) for each in fields]
            self.columns = {each.name: place.array for each, place in zip(fields, self._reserved)}
            self.ids, self.last = self.columns["id"], self.columns["last"]
            self.index = Index(self.ids)
        except OSError as error:
            raise UsageError(
                f"{name}: no address space for {capacity} rows ({error.strerror}); give it max_rows, or see "
                "`ulimit -v` and vm.overcommit_memory"
            ) from None
        self.num_slots = self.num_unused = 0  # slots of records; those of them whose `last` is 0
        self._num_touched = 0  # slots that have ever been written to
        self.step = 0  # the last one that has used any
        self.forgotten_step = 0  # records last used in it, or before, have been forgotten
        self.changing = threading.Lock()
        self._snapshot: Snapshot | None = None

    def __len__(self) -> int:
        return self.num_slots - self.num_unused

    @property
    def num_bytes(self) -> int:
        """The bytes of the records and of their index."""
        return self.num_slots * self.dtype.itemsize + self.index.num_bytes

    def add(self, ids: Any) -> Any:
        """Return slots, one behind the other, of zeros, for ids that are not there; `use` has to follow."""
        start, end = self.num_slots, self.num_slots + len(ids)
        self._make_room(end)
        if start < self._num_touched:  # what was moved away from there is left; behind, memory is zero
            for column in self.columns.values():
                column[start : min(end, self._num_touched)] = 0
        self._num_touched = max(end, self._num_touched)
        self.ids[start:end] = ids
        slots = np.arange(start, end)
        self.index.insert(slots)
        self.num_slots = end
        self.num_unused += len(ids)
        return slots

    def use(self, slots: Any, step: int) -> None:
        """Note that `step` uses the records of slots, each once, before their numbers change."""
        self._keep(slots)
        self.num_unused -= len(slots) - int(np.count_nonzero(self.last[slots]))
        self.last[slots] = step

    def begin_step(self, step: int) -> None:
        """Note that records are about to be used by `step`; ValueError for one that is not above the last."""
        if not self.step < step < 1 << 31:
            raise ValueError(f"{self._name}: step {step} after step {self.step}")
        self.step = step

    def forget(self, slots: Any) -> None:
        """Forget the records of slots; they stay where they are until the next `compact`."""
        self._keep(slots)
        self.last[slots] = 0
        self.num_unused += len(slots)

    def forget_until(self, step: int) -> int:
        """Forget the records that no step after `step` has used; return how many."""
        before = len(self)
        for start in range(0, self.num_slots, SCAN):
            last = self.last[start : min(start + SCAN, self.num_slots)]
            self.forget(start + np.flatnonzero((last > 0) & (last <= step)))
        self.forgotten_step = max(self.forgotten_step, step)
        if len(self) < before:
            self.compact()
        return before - len(self)

    def compact(self) -> None:
        """Give the slots of forgotten records to the last ones that are there, which leave no gaps then."""
        self.index.drop(lambda slots: self.last[slots] > 0)
        end = len(self)
        gaps = np.flatnonzero(self.last[:end] == 0)
        moving = end + np.flatnonzero(self.last[end : self.num_slots])
        for start in range(0, len(gaps), CHUNK):
            part = slice(start, start + CHUNK)
            for column in self.columns.values():
                column[gaps[part]] = column[moving[part]]
        self.index.renumber(moving, gaps)
        self.num_slots, self.num_unused = end, 0

    def copies(self, slots: Any) -> Any:
        """Return the records of slots, as an array of `dtype`."""
        copies = np.empty(len(slots), self.dtype)
        for name, column in self.columns.items():
            if native.gather is None:
                copies[name] = column[slots]
            else:
                item, offset = self.dtype.fields[name][:2]  # type: ignore[index]
                native.gather(column.view(np.uint8), item.itemsize, slots, copies.view(np.uint8), offset)
        return copies

    def insert(self, records: Any) -> None:
        """Add those of some records, as `copies` returns them, whose ids are not there."""
        new = records[self.index.find(np.ascontiguousarray(records["id"])) < 0]
        start = self.num_slots
        self.add(new["id"])
        for name, column in self.columns.items():
            column[start : self.num_slots] = new[name]
        self.num_unused -= len(new)

    def snapshot(self, base_step: int = 0, changed: Any = None) -> Snapshot:
        """Return the records as they are, while they go on changing.

        Of those that a step after `base_step` has used, `changed` are the ids. There is one snapshot at a time: the
        last one must be at its end, or closed.
        """
        if self._snapshot is not None and self._snapshot.is_open:
            raise ValueError(f"{self._name}: the last snapshot is still being read")
        self._snapshot = Snapshot(self, base_step, changed)
        return self._snapshot

    def ids_used_after(self, step: int) -> Any:
        """Return the ids of records that a step after `step` has used."""
        ids = [np.zeros(0, np.int64)]
        for start in range(0, self.num_slots, SCAN):
            end = min(start + SCAN, self.num_slots)
            ids.append(self.ids[start:end][self.last[start:end] > step])
        return np.concatenate(ids)

    def _keep(self, slots: Any) -> None:
        if self._snapshot is not None and len(slots):
            self._snapshot.keep(slots)

    def _make_room(self, num_slots: int) -> None:
        """Refuse records beyond the limit, or beyond the memory or disk that is left, before they end the process."""
        limit = len(self.ids)
        if num_slots > limit:
            remedy = "raise max_rows" if limit == self._limit else "give more --num-servers"
            raise UsageError(
                f"{self._name}: {num_slots} rows are more than its limit of {limit} on a server; {remedy}, let rows "
                "expire (expire_after) or admit fewer (admit_after)"
            )
        if self.num_slots and self.num_slots // CHUNK == num_slots // CHUNK:
            return
        end = min(limit, (num_slots // CHUNK + 1) * CHUNK)
        try:
            for each in self._reserved:
                each.grow(end)
        except OSError as error:
            raise UsageError(
                f"{self._name}: no room for {end} rows ({error.strerror}); see --store-dir"
            ) from None
        if self._reserved[0].is_in_memory:
            left, needed = machine.available_memory(), (end - self.num_slots) * self.dtype.itemsize
            if left < needed + SPARE_BYTES:
                raise UsageError(
                    f"{self._name}: {end} rows take {needed >> 20} MB more than the {self.num_bytes >> 20} MB of now, "
                    f"and {left >> 20} MB are left; give more --num-servers, or --store-dir for files on a disk"
                )
