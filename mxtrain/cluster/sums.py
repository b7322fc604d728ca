"""Sums over all workers for the coordinator: collected as they arrive, added in the order of ranks.

So the total has the same bits whichever worker came first. Owns the arithmetic, not the messages.
"""

from __future__ import annotations

import numpy as np


class PendingSum:
    """The one sum that is open at a time: a worker waits for its total before it can ask for the next."""

    def __init__(self, num_workers: int):
        self._num_workers = num_workers
        self._sequence = 0
        self._values: dict[int, bytes] = {}

    @property
    def waiting(self) -> set[int]:
        """Ranks of the workers that wait for the total."""
        return set(self._values)

    def add(self, rank: int, sequence: int, values: bytes) -> bytes | None:
        """Take a worker's values for the sum of this sequence number; return the total once all are here.

        Raises ValueError for values out of turn or of another length.
        """
        if sequence != self._sequence or rank in self._values:
            raise ValueError(f"sum {sequence} instead of {self._sequence}")
        if any(len(values) != len(other) for other in self._values.values()) or len(values) % 8:
            raise ValueError(f"{len(values)} bytes in sum {sequence}, where another worker has more or fewer")
        self._values[rank] = values
        if len(self._values) < self._num_workers:
            return None
        total = np.frombuffer(self._values[0], dtype="<f8").copy()
        for other in range(1, self._num_workers):
            total += np.frombuffer(self._values[other], dtype="<f8")
        self._values.clear()
        self._sequence += 1
        return total.tobytes()
