"""Collectives made of sums."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from mxtrain.cluster.worker_group import SingleWorker, gather_in_turn


class Together(SingleWorker):
    """One of several workers in threads."""

    def __init__(self, rank: int, given: list[Any], barrier: threading.Barrier):
        self.rank, self.world_size = rank, len(given)  # type: ignore[misc]
        self._given, self._barrier = given, barrier

    def sum(self, values: Any) -> Any:
        self._given[self.rank] = values
        self._barrier.wait(10)
        total = np.sum(self._given, axis=0)
        self._barrier.wait(10)
        return total


@pytest.mark.parametrize("num_workers", [1, 2, 3, 5])
def test_vectors_of_any_lengths_come_together_in_order(num_workers: int) -> None:
    """The last workers have less, or nothing."""
    all_of_them = [np.arange(length) + 0.1 * length for length in (3, 0, 5, 1)]
    given, barrier = [None] * num_workers, threading.Barrier(num_workers)

    def gathered(rank: int) -> Any:
        own = all_of_them[rank::num_workers]
        return gather_in_turn(Together(rank, given, barrier), own, len(all_of_them))

    with ThreadPoolExecutor(num_workers) as threads:
        for found in threads.map(gathered, range(num_workers)):
            assert [each.tolist() for each in found] == [each.tolist() for each in all_of_them]


def test_no_vector_has_a_number() -> None:
    assert [each.size for each in gather_in_turn(SingleWorker(), [np.zeros(0)] * 3, 3)] == [0, 0, 0]
