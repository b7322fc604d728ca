"""Records as they were when a snapshot began, read piece by piece beside their changes, without a second copy.

Owns which records are kept aside: those that change before their piece is read. A record belongs to the snapshot if its
last step is not above the snapshot's, so what changed since tells of itself. Pieces come in the order of hashes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, NamedTuple

import numpy as np

from mxtrain.tables.hashing import hashes_of

if TYPE_CHECKING:
    from mxtrain.tables.records import Records

PIECE = 1 << 15  # records, about
END = 1 << 64  # of hashes


class _Kept(NamedTuple):
    """Records as they were, by ascending hash."""

    hashes: Any
    records: Any

    def between(self, low: int, high: int) -> Any:
        first, end = (
            int(np.searchsorted(self.hashes, np.uint64(bound))) if bound < END else len(self.hashes)
            for bound in (low, high)
        )
        return self.records[first:end]


class Snapshot:
    """The records at the last step of `records`, those of the ids `changed` that a step after `base_step` has used."""

    def __init__(self, records: Records, base_step: int = 0, changed: Any = None):
        self.step, self.base_step = records.step, base_step
        self.forgotten_step = records.forgotten_step
        self.is_open = True
        self._records, self._changed = records, changed
        self._kept: list[_Kept] = []
        self._next = 0  # the hash from which on records are still to be read

    def keep(self, slots: Any) -> None:
        """Keep records as they are that are still to be read, before they change; the caller holds `changing`."""
        if not self.is_open:
            return
        slots = self._of_snapshot(slots)
        hashes = hashes_of(self._records.ids[slots])
        is_to_come = hashes >= np.uint64(self._next)
        if is_to_come.any():
            self._kept.append(_by_hash(hashes[is_to_come], self._records.copies(slots[is_to_come])))

    def pieces(self) -> Iterator[Any]:
        """Yield the records in arrays of their `dtype`, by ascending hash; ends the snapshot."""
        try:
            for low, high, ids in self._ranges():
                yield self._piece(low, high, ids)
        finally:
            self.close()

    def close(self) -> None:
        """Keep no more records."""
        self.is_open, self._kept = False, []

    def _ranges(self) -> Iterator[tuple[int, int, Any]]:
        """Yield the hash where each piece begins and the one where it ends, and its ids if they are known."""
        if self._changed is None:
            count = len(self._records) // PIECE + 1
            bounds = [END * number // count for number in range(count + 1)]
            for low, high in zip(bounds, bounds[1:]):
                yield low, high, None
            return
        hashes, ids = _by_hash(hashes_of(self._changed), self._changed)
        low = 0
        for start in range(0, max(1, len(ids)), PIECE):
            end = start + PIECE
            high = int(hashes[end]) if end < len(ids) else END
            yield low, high, ids[start:end]
            low = high

    def _piece(self, low: int, high: int, ids: Any) -> Any:
        records = self._records
        with records.changing:
            if ids is None:
                slots = records.index.slots_between(low, high)
                slots = slots[np.argsort(hashes_of(records.ids[slots]), kind="stable")]  # they nearly ascend
            else:
                slots = records.index.find(ids)
                slots = slots[slots >= 0]
            unchanged = records.copies(self._of_snapshot(slots))
            kept = [each.between(low, high) for each in self._kept]
            self._next = min(high, END - 1)
        if not any(map(len, kept)):
            return unchanged
        joined = np.concatenate([unchanged, *kept])
        return _by_hash(hashes_of(joined["id"]), joined).records

    def _of_snapshot(self, slots: Any) -> Any:
        """Return those of some slots whose records belong to the snapshot and are as they were."""
        last = self._records.last[slots]
        return slots[(last > self.base_step) & (last <= self.step)]


def _by_hash(hashes: Any, records: Any) -> _Kept:
    order = np.argsort(hashes)
    return _Kept(hashes[order], records[order])
