"""The ids that have no row yet, and how often they were seen: a row comes to life once enough steps have used it."""

from __future__ import annotations

from typing import Any

from mxtrain.tables.records import Column, Records


class Sightings:
    """The ids that were used in fewer than `enough` steps, and in how many."""

    def __init__(self, name: str, enough: int):
        self._enough = enough
        self.records = Records(name, [Column("count", (), "<i4")])

    def admit(self, ids: Any, step: int) -> Any:
        """Count one more step for each id, which is there once; return which have enough, and forget these."""
        records = self.records
        with records.changing:
            records.begin_step(step)
            slots = records.index.find(ids)
            is_new = slots < 0
            slots[is_new] = records.add(ids[is_new])
            records.use(slots, step)
            counts = records.columns["count"]
            counts[slots] += 1
            is_enough = counts[slots] >= self._enough
            records.forget(slots[is_enough])
            counts[slots[is_enough]] = 0
            if records.num_unused > len(records):
                records.compact()
        return is_enough
