"""Sums over all workers: collected as they come, added in the order of the workers' numbers.

So the result has the same bits whoever came first.
"""

from __future__ import annotations

import numpy as np


class Sums:
    """The one sum that is open at a time; a worker waits for it before it can come to the next."""

    def __init__(self, num_workers: int):
        self._num_workers = num_workers
        self._index = 0
        self._values: dict[int, bytes] = {}

    @property
    def numbers(self) -> set[int]:
        """The workers that wait for it."""
        return set(self._values)

    def add(self, number: int, index: int, values: bytes) -> bytes | None:
        """Worker `number` comes to sum `index`; the total, as soon as all have. ValueError for one out of turn."""
        if index != self._index or number in self._values:
            raise ValueError(f"sum {index} instead of {self._index}")
        if any(len(values) != len(other) for other in self._values.values()) or len(values) % 8:
            raise ValueError(f"{len(values)} bytes in sum {index}, where another worker has more or fewer")
        self._values[number] = values
        if len(self._values) < self._num_workers:
            return None
        total = np.frombuffer(self._values[0], dtype="<f8").copy()
        for number in range(1, self._num_workers):
            total += np.frombuffer(self._values[number], dtype="<f8")
        self._values.clear()
        self._index += 1
        return total.tobytes()
