"""Records as they were when a snapshot began, read piece by piece beside their changes, without a second copy.

Owns which records are kept aside: those that change before their piece is read. A record belongs to the snapshot if its
last step is not above the snapshot's, so what has changed since tells of itself. Pieces come in the order of hashes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator

import numpy as np

from mxtrain.tables.hashing import hashes_of

if TYPE_CHECKING:
    from mxtrain.tables.records import Records

PIECE = 1 << 15  # records, about
TOP = 32  # bits of a hash, by which it belongs to a piece


class Snapshot:
    """The records at the last step of `records`; those of the ids `changed` that a step after `base_step` has used."""

    def __init__(self, records: Records, base_step: int = 0, changed: Any = None):
        self.step, self.base_step = records.step, base_step
        self.forgotten_step = records.forgotten_step
        self.is_open = True
        self._records, self._changed = records, changed
        self._num_pieces = len(records if changed is None else changed) // PIECE + 1
        self._num_read = 0
        self._kept: list[list[Any]] = [[] for _ in range(self._num_pieces)]

    def keep(self, slots: Any) -> None:
        """Keep records as they are that are still to be read, before they change; the caller holds `changing`."""
        if not self.is_open:
            return
        slots = self._of_snapshot(slots)
        pieces = self._pieces_of(self._records.ids[slots])
        order = np.argsort(pieces, kind="stable")
        order = order[np.searchsorted(pieces[order], self._num_read) :]
        numbers, starts = np.unique(pieces[order], return_index=True)
        copies = self._records.copies(slots[order])
        for number, start, end in zip(numbers.tolist(), starts, [*starts[1:], len(copies)]):
            self._kept[number].append(copies[start:end].copy())  # which goes when its piece has been read

    def pieces(self) -> Iterator[Any]:
        """Yield the records in arrays of their `dtype`, by ascending hash; ends the snapshot."""
        try:
            ids: Any = [None] * self._num_pieces
            if self._changed is not None:
                pieces = self._pieces_of(self._changed)
                order = np.argsort(pieces, kind="stable")
                ids = np.split(
                    self._changed[order], np.searchsorted(pieces[order], np.arange(1, self._num_pieces))
                )
            for number, of_piece in enumerate(ids):
                yield self._piece(number, of_piece)
        finally:
            self.close()

    def close(self) -> None:
        """Keep no more records."""
        self.is_open = False
        self._kept = [[] for _ in self._kept]

    def _piece(self, number: int, ids: Any) -> Any:
        records = self._records
        with records.changing:
            if ids is None:
                low, high = (-((-bound << TOP) // self._num_pieces) << TOP for bound in (number, number + 1))
                slots = records.index.slots_between(low, high)
            else:
                slots = records.index.find(ids)
                slots = slots[slots >= 0]
            slots = self._of_snapshot(slots)
            slots = slots[np.argsort(hashes_of(records.ids[slots]), kind="stable")]  # they nearly ascend
            unchanged = records.copies(slots)
            kept, self._kept[number] = self._kept[number], []
            self._num_read = number + 1
        if not kept:
            return unchanged
        joined = np.concatenate([unchanged, *kept])
        return joined[np.argsort(hashes_of(joined["id"]))]

    def _pieces_of(self, ids: Any) -> Any:
        """Return the number of the piece of each id."""
        top = hashes_of(ids) >> np.uint64(TOP)
        return ((top * np.uint64(self._num_pieces)) >> np.uint64(TOP)).astype(np.int64)

    def _of_snapshot(self, slots: Any) -> Any:
        """Return those of some slots whose records belong to the snapshot and are as they were."""
        last = self._records.last[slots]
        return slots[(last > self.base_step) & (last <= self.step)]
