"""How often ids were seen that have no row yet: rows come to life once they were used in so many steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxtrain.tables.index import MOST_SLOTS, Index
from mxtrain.tables.reserved import Reserved


class Sightings:
    """The ids that were used in fewer than `enough` steps, and in how many."""

    def __init__(self, enough: int):
        self._enough = enough
        self.ids, self.counts = (Reserved(MOST_SLOTS, (), dtype) for dtype in (np.int64, np.int32))
        self._index = Index(self.ids.array)
        self.num_slots = self._num_admitted = 0

    def admit(self, ids: Any) -> Any:
        """Count one more step for each id, which is there once; return which have enough, and forget these."""
        slots = self._index.find(ids)
        new = np.flatnonzero(slots < 0)
        slots[new] = np.arange(self.num_slots, self.num_slots + len(new))
        self.ids.array[slots[new]] = ids[new]
        self.counts.array[slots[new]] = 0
        self.num_slots += len(new)
        self._index.insert(slots[new])
        self.counts.array[slots] += 1
        is_enough = self.counts.array[slots] >= self._enough
        self.counts.array[slots[is_enough]] = 0
        self._num_admitted += int(is_enough.sum())
        if self._num_admitted > self.num_slots // 2:
            self._compact()
        return is_enough

    def _compact(self) -> None:
        """Forget the ids that were admitted: those behind them move into their slots."""
        counts, ids = self.counts.array, self.ids.array
        left = np.flatnonzero(counts[: self.num_slots])
        ids[: len(left)], counts[: len(left)] = ids[left], counts[left]
        self.num_slots, self._num_admitted = len(left), 0
        self._index.rebuild(np.arange(len(left)))
