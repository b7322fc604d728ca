"""Gradients in bfloat16 between hosts: near the sums, the same on all workers, and other sums as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.kvstore.allreduce.halves import rounded, widen
from mxtrain.kvstore.allreduce.partition import PIECE, SMALL
from mxtrain.runtime import mx
from tests.support.breadth import slow_cases
from tests.support.jobs.allreduce_jobs import succeed

SIZE = PIECE + 5 * SMALL + 3


def widened(halves: np.ndarray) -> np.ndarray:
    numbers = np.empty(halves.shape, np.float32)
    widen(halves, numbers)
    return numbers


def test_all_halves_are_themselves_and_numbers_go_to_the_nearest() -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    numbers = widened(every)
    assert np.array_equal(rounded(numbers)[~np.isnan(numbers)], every[~np.isnan(numbers)])
    assert np.isnan(widened(rounded(numbers[np.isnan(numbers)]))).all()
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 1_000_000, dtype=np.uint64).astype(np.uint32)
    numbers = bits.view(np.float32)
    found = widened(rounded(numbers))
    assert np.array_equal(np.isnan(found), np.isnan(numbers))
    numbers, found, bits = (each[~np.isnan(numbers)] for each in (numbers, found, bits))
    is_usual = np.isfinite(numbers) & (np.abs(numbers) < 3.3e38)  # above, the nearest may be infinity
    lower, upper = (widened(((bits >> 16) + more).astype(np.uint16)) for more in (0, 1))
    exact = numbers.astype(np.float64)
    nearest = np.minimum(np.abs(lower - exact), np.abs(upper - exact))
    assert np.array_equal(np.abs(found - exact)[is_usual], nearest[is_usual])
    halves_between = widened(np.arange(1 << 14, dtype=np.uint16)).view(np.uint32) + 0x8000
    assert not (rounded(halves_between.view(np.float32)) & 1).any(), "a half goes to the even one"


def numbers_of_worker(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).normal(0, 3.0**rank, SIZE).astype(np.float32)


def sum_rounded(kv: Any, folder: Path) -> None:
    every = [numbers_of_worker(rank) for rank in range(kv.num_workers)]
    array = mx.nd.array(every[kv.rank])
    kv.init(["a"], [array])
    kv.pushpull("a", array, is_rounded=True)
    kv.wait("a")
    found = array.asnumpy()
    largest = np.sum([np.abs(each).astype(np.float64) for each in every], axis=0)
    assert (np.abs(found - np.sum(every, axis=0, dtype=np.float64)) <= largest * 2.0**-7).all()
    assert np.array_equal(found, widened(rounded(found))), "what all have has travelled"
    np.save(folder / f"{kv.rank}.npy", found)
    array[:] = 2.0**20 + 1  # which no bfloat16 is
    kv.pushpull("a", array)
    kv.wait("a")
    assert (array.asnumpy() == (2.0**20 + 1) * kv.num_workers).all()
    array[:] = np.nan if kv.rank == 0 else np.inf
    kv.pushpull("a", array, is_rounded=True)
    kv.wait("a")
    assert np.isnan(array.asnumpy()).all()


@pytest.mark.parametrize("places", ["aab", *slow_cases("ab", "abc")])
def test_rounded_sums_are_near_and_the_same_everywhere(tmp_path: Path, places: str) -> None:
    succeed(tmp_path, places, sum_rounded)
    first, *others = (np.load(tmp_path / f"{rank}.npy") for rank in range(len(places)))
    assert all(np.array_equal(first, each) for each in others)


def sum_on_one_host(kv: Any, folder: Path) -> None:
    every = [numbers_of_worker(rank).round() for rank in range(kv.num_workers)]
    array = mx.nd.array(every[kv.rank])
    kv.init(["a"], [array])
    kv.pushpull("a", array, is_rounded=True)
    kv.wait("a")
    assert np.array_equal(array.asnumpy(), sum(every)), "nothing travels"


def test_on_one_host_nothing_is_rounded(tmp_path: Path) -> None:
    succeed(tmp_path, "aa", sum_on_one_host)
