"""The index of a share: from an id to the slot in which its row lies, in open addressing.

A place holds a slot + 1 in an int32, 0 where it is empty, so the index takes 4 bytes of 5 to 11 a row; the ids
themselves are an array by slot, which is not the index's. C and NumPy fill places in other orders and find the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxtrain import native
from mxtrain.tables.first_values import mixed

LEAST_PLACES = 1 << 10
MOST_SLOTS = (1 << 31) - 2
FULL = 0.75  # of the places; a larger index is made then


class Index:
    """The places of slots whose ids are `ids[slot]`."""

    def __init__(self, ids: Any):
        self._ids = ids
        self.places = np.zeros(LEAST_PLACES, np.int32)
        self._num_slots = 0

    def find(self, wanted: Any) -> Any:
        """Return the slot of each id, -1 for one that is not there."""
        slots: Any = np.empty(len(wanted), np.int64)
        if native.find_slots is not None:
            native.find_slots(self.places, self._ids, wanted, slots)
            return slots
        mask = np.uint64(len(self.places) - 1)
        left, place = np.arange(len(wanted)), mixed(wanted.view(np.uint64)) & mask
        while len(left):
            found = self.places[place].astype(np.int64) - 1
            slots[left] = found
            goes_on = (found >= 0) & (self._ids[found] != wanted[left])
            left, place = left[goes_on], (place[goes_on] + np.uint64(1)) & mask
        return slots

    def insert(self, slots: Any) -> None:
        """Add slots, whose ids are set and not in the index yet, each once."""
        if self._num_slots + len(slots) > FULL * len(self.places):
            self._grow(self._num_slots + len(slots))
        self._put(slots)
        self._num_slots += len(slots)

    def rebuild(self, slots: Any) -> None:
        """Have these slots and no others."""
        self.places = np.zeros(_num_places(len(slots)), np.int32)
        self._put(slots)
        self._num_slots = len(slots)

    def _grow(self, num_slots: int) -> None:
        old = self.places
        self.places = np.zeros(_num_places(num_slots), np.int32)
        for start in range(0, len(old), 1 << 20):  # a second copy of all slots would be as large as the index
            part = old[start : start + (1 << 20)]
            self._put(part[part > 0].astype(np.int64) - 1)

    def _put(self, slots: Any) -> None:
        if native.insert_slots is not None:
            native.insert_slots(self.places, self._ids, slots)
            return
        mask = np.uint64(len(self.places) - 1)
        place = mixed(self._ids[slots].view(np.uint64)) & mask
        while len(slots):
            empty = self.places[place] == 0
            # Of several that come to one empty place the first takes it.
            _, first = np.unique(
                np.where(empty, place.astype(np.int64), -1 - np.arange(len(place))), return_index=True
            )
            takes = np.zeros(len(slots), bool)
            takes[first] = True
            takes &= empty
            self.places[place[takes]] = slots[takes] + 1
            slots, place = slots[~takes], (place[~takes] + np.uint64(1)) & mask


def _num_places(num_slots: int) -> int:
    places = LEAST_PLACES
    while num_slots > FULL * places:
        places *= 2
    return places
