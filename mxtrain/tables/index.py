"""The index of records: from an id to the slot in which its record lies, in open addressing.

A place holds a slot + 1 in an int32, 0 where it is empty, so the index takes 4 bytes of 5.3 to 6.7 a record; the ids
themselves are an array by slot, which is not the index's. The place where an id is looked for first grows with its
hash, so records can be gone through in the order of hashes, and the index grows in place: from its end to its beginning
all move on. Behind the last place there is always room for what has not found any, so nothing begins anew at the first.
C and NumPy fill places in other orders and find the same.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from mxtrain import native
from mxtrain.tables.hashing import hashes_of
from mxtrain.tables.reserved import Reserved

LEAST_PLACES = 1 << 10
MOST_SLOTS = (1 << 31) - 2
FULL, GROWTH = 0.75, 1.25  # of the places: from how many on there are more, and how many times as many
AT_A_TIME = 1 << 16  # places that move on, or are looked at
TOP = np.uint64(32)  # bits of a hash, by which a place is chosen


class Index:
    """The places of slots whose ids are `ids[slot]`."""

    def __init__(self, ids: Any):
        self._ids = ids
        # Of which the last third is for ids that all want the last place.
        self._reserved = Reserved(3 * len(ids) + 2 * LEAST_PLACES, (), np.int32)
        self._places = self._reserved.array
        self._num_places, self._num_slots = LEAST_PLACES, 0
        self.version = 0  # another one whenever a slot is put in, left out or renumbered

    @property
    def num_bytes(self) -> int:
        """The bytes of the places."""
        return 4 * self._num_places

    def find(self, wanted: Any) -> Any:
        """Return the slot of each id, -1 for one that is not there."""
        slots: Any = np.empty(len(wanted), np.int64)
        if native.find_slots is not None:
            native.find_slots(self._places, self._num_places, self._ids, wanted, slots)
            return slots
        left, place = np.arange(len(wanted)), self._first_places(wanted)
        while len(left):
            here = self._places[place].astype(np.int64) - 1
            slots[left] = here
            goes_on = (here >= 0) & (self._ids[here] != wanted[left])
            left, place = left[goes_on], place[goes_on] + 1
        return slots

    def insert(self, slots: Any) -> None:
        """Add slots, whose ids are set and not in the index yet, each once."""
        count = self._num_slots + len(slots)
        if count > FULL * self._num_places:
            self.reserve(max(count, int(GROWTH * self._num_slots)))
        self._put(slots)
        self._num_slots = count
        self.version += len(slots) > 0

    def reserve(self, count: int) -> None:
        """Have places for so many slots; needed before many are inserted in the order of their hashes.

        They would all want the first few places of an index that is too small.
        """
        if count > FULL * self._num_places:
            self._spread(int(count / FULL) + 1)

    def drop(self, stays: Callable[[Any], Any]) -> None:
        """Leave out slots: `stays` tells of an array of them which stay."""
        self._num_slots = self._spread(self._num_places, stays)
        self.version += 1

    def renumber(self, old: Any, new: Any) -> None:
        """Let records be in `new` slots that were in the `old` ones, which ascend and are above all that stay."""
        if len(old):
            self.version += 1
            for start in range(0, self._end_of_run(self._num_places), AT_A_TIME):
                part = self._places[start : start + AT_A_TIME]
                moving = np.flatnonzero(part > old[0])
                part[moving] = new[np.searchsorted(old, part[moving] - 1)] + 1

    def slots_between(self, low: int, high: int) -> Any:
        """Return the slots of ids with hashes from `low` on, below `high`, in no order."""
        first, last = (((bound >> 32) * self._num_places) >> 32 for bound in (low, high))
        part = self._places[first : self._end_of_run(last)]
        slots = part[part > 0].astype(np.int64) - 1
        hashes = hashes_of(self._ids[slots])
        is_inside = hashes >= np.uint64(low)
        if high < 1 << 64:
            is_inside &= hashes < np.uint64(high)
        return slots[is_inside]

    def _spread(self, num_places: int, stays: Callable[[Any], Any] | None = None) -> int:
        """Have so many places, not fewer than before; return how many slots there are.

        Places are emptied from behind, from an empty one to an empty one, and their slots put in again. None of them
        wants a place further to the front, where places are still to be emptied.
        """
        end, count = self._end_of_run(self._num_places), 0
        self._reserved.grow(num_places)
        self._num_places = num_places
        while end:
            start = self._start_of_run(max(0, end - AT_A_TIME))
            part = self._places[start:end]
            slots = part[part > 0].astype(np.int64) - 1
            part[:] = 0
            if stays is not None:
                slots = slots[stays(slots)]
            self._put(slots)
            end, count = start, count + len(slots)
        return count

    def _end_of_run(self, place: int) -> int:
        """Return the first empty place from `place` on."""
        while True:
            empty = np.flatnonzero(self._places[place : place + LEAST_PLACES] == 0)
            if len(empty):
                return place + int(empty[0])
            place += LEAST_PLACES

    def _start_of_run(self, place: int) -> int:
        """Return the last place up to `place` that is behind an empty one, or the first of all."""
        while place:
            start = max(0, place - LEAST_PLACES)
            empty = np.flatnonzero(self._places[start:place] == 0)
            if len(empty):
                return start + int(empty[-1]) + 1
            place = start
        return 0

    def _first_places(self, ids: Any) -> Any:
        top = hashes_of(ids) >> TOP
        return ((top * np.uint64(self._num_places)) >> TOP).astype(np.int64)

    def _put(self, slots: Any) -> None:
        if native.insert_slots is not None:
            native.insert_slots(self._places, self._num_places, self._ids, slots)
            return
        place = self._first_places(self._ids[slots])
        while len(slots):
            empty = np.flatnonzero(self._places[place] == 0)
            # Of several that come to one empty place the first takes it.
            _, first = np.unique(place[empty], return_index=True)
            takers = empty[first]
            self._places[place[takers]] = slots[takers] + 1
            slots, place = np.delete(slots, takers), np.delete(place, takers) + 1
