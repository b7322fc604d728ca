"""Sums that workers make among themselves: those of NumPy, to the bit, wherever the workers are."""

from __future__ import annotations

import functools
import threading
import time
from pathlib import Path
from typing import Any, Sequence

import numpy as np
import pytest

from mxtrain.kvstore.allreduce import peers
from mxtrain.kvstore.allreduce.partition import ALIGNMENT, PIECE, SMALL, owned
from mxtrain.kvstore.allreduce.store import _summation
from mxtrain.kvstore.buckets import Buckets
from mxtrain.kvstore.limbs import WideBlocks
from mxtrain.optim.sums.grid import Grid
from mxtrain.runtime import mx
from tests.support.breadth import slow_cases
from tests.support.jobs import summing_worker
from tests.support.jobs.allreduce_jobs import numbers_of, succeed

SIZES = (1, 2, ALIGNMENT + 1, SMALL, SMALL + 1, 12_345, PIECE, PIECE + 1, 2 * PIECE + 4099)
STEPS = 2
BITS = 20  # of whole numbers, of which float32 adds those of 16 workers exactly
PLACES = ["a", "aab"]  # the host of each worker
SLOW_PLACES = [
    "aa",
    "ab",
    "abab",
    "aaa",
    "abb",
    "abc",
    "aaaa",
    "abcd",
    "aaaaaa",
    "abcdef",
    "aaabbc",
    "abbaca",
]
slow = pytest.mark.slow


def whole_numbers(rank: int, step: int, number: int, size: int) -> np.ndarray:
    rng = np.random.default_rng([rank, step, number])
    return rng.integers(-(2**BITS), 2**BITS, size).astype(np.float32)


def sum_all_sizes(kv: Any, folder: Path) -> None:
    """In arrays of the worker's own, and in those that are added where they are."""
    arrays = [mx.nd.zeros((size,)) for size in SIZES]
    own, shared = ([f"{kind}-{number}" for number in range(len(SIZES))] for kind in ("own", "shared"))
    kv.init(own, arrays)
    sums_are_right(kv, own, arrays)
    sums_are_right(kv, shared, kv.new_arrays(shared, SIZES))


def sums_are_right(kv: Any, keys: Sequence[str], arrays: Sequence[Any]) -> None:
    for step in range(STEPS):
        for number, (key, array) in enumerate(zip(keys, arrays)):
            array[:] = mx.nd.array(whole_numbers(kv.rank, step, number, array.size))
            kv.pushpull(key, array)
        for number in reversed(range(len(keys))):
            kv.wait(keys[number])
            of_workers = [whole_numbers(rank, step, number, SIZES[number]) for rank in range(kv.num_workers)]
            assert np.array_equal(arrays[number].asnumpy(), sum(of_workers)), f"{step}, {SIZES[number]}"


@pytest.mark.parametrize("places", [*PLACES, *(pytest.param(each, marks=slow) for each in SLOW_PLACES)])
def test_sums_are_those_of_numpy(tmp_path: Path, places: str) -> None:
    succeed(tmp_path, places, sum_all_sizes)


@pytest.mark.parametrize("places", ["aaa", "abc", "aaabb"])
def test_arrays_of_any_size_are_summed(places: str) -> None:
    """Of none, fewer than workers, and around what decides how: workers are threads here."""
    sizes = [0, 1, 3, SMALL - 1, SMALL + 1, SMALL + 16, 5000, PIECE + 1, PIECE + SMALL + 1]
    numbers, found = numbers_of(places), [[] for _ in places]

    def work(rank: int) -> None:
        connected = peers.connect(rank, numbers, 20)
        _, network, add = _summation(connected, list(places))
        for number, size in enumerate(sizes):
            array = whole_numbers(rank, 0, number, size)
            add(array)
            found[rank].append(array)
        connected.end()
        if network is not None:
            network.close()
        connected.close()

    threads = [threading.Thread(target=work, args=[rank], daemon=True) for rank in range(len(places))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for number, size in enumerate(sizes):
        total = sum(whole_numbers(rank, 0, number, size) for rank in range(len(places)))
        assert all(np.array_equal(of_worker[number], total) for of_worker in found), size


@pytest.mark.parametrize("num_owners", [1, 2, 3, 6, 64])
def test_each_number_has_one_owner(num_owners: int) -> None:
    for size in (0, 1, 15, 17, 100, 4097, 100_003):
        owners = [list(range(size))[owned(size, owner, num_owners)] for owner in range(num_owners)]
        assert [number for each in owners for number in each] == list(range(size))


def sum_fractions(kv: Any, folder: Path) -> None:
    array = mx.nd.array(np.random.default_rng(kv.rank).standard_normal(70_000))
    few = array[:1000].copy()
    kv.init(["many", "few"], [array, few])
    kv.pushpull("many", array)
    kv.pushpull("few", few)
    kv.wait("few")
    np.save(folder / f"{kv.rank}.npy", np.concatenate([array.asnumpy(), few.asnumpy()]))


@pytest.mark.parametrize("places", ["aab", *slow_cases("aaa", "abc")])
def test_sums_that_are_rounded_are_the_same_for_all(tmp_path: Path, places: str) -> None:
    succeed(tmp_path, places, sum_fractions)
    first, *others = (np.load(tmp_path / f"{rank}.npy") for rank in range(len(places)))
    assert all(np.array_equal(first, other) for other in others)


def sum_times(factor: float, kv: Any, folder: Path) -> None:
    array = mx.nd.zeros((100_000,))
    kv.init(["key"], [array])
    for step in range(20):
        array[:] = factor * step
        kv.pushpull("key", array)
        kv.wait("key")
        assert (array.asnumpy() == factor * step * kv.num_workers).all()


def test_stores_of_one_machine_do_not_meet(tmp_path: Path) -> None:
    def run(factor: int, places: Sequence[str]) -> None:
        folder = tmp_path / str(factor)
        folder.mkdir()
        succeed(folder, places, functools.partial(sum_times, factor))
        ended.append(factor)

    ended: list[int] = []
    threads = [threading.Thread(target=run, args=each) for each in ((1, "aa"), (3, "ab"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ended) == [1, 3]


def sum_in_buckets(kv: Any, folder: Path) -> None:
    summing_worker.everywhere_the_same_after_broadcast(kv)
    summing_worker.sums_are_exact(kv, steps=10)
    summing_worker.compressed_sums_are_those_of_the_model(kv)
    wide_sums_are_rounded_once(kv)
    pushing_does_not_wait(kv)


def wide_sums_are_rounded_once(kv: Any) -> None:
    """Numbers of 40 bits, which float32 would add with errors."""
    grid = Grid([3000], num_addends=kv.num_workers)
    grid.learn(np.ones(3))
    totals = [np.random.default_rng(rank).integers(-(2**40), 2**40, 3000) for rank in range(kv.num_workers)]
    unit = np.ldexp(1.0, int(grid.scaled[0]))
    grid.totals[0][:] = totals[kv.rank] * unit
    sums = [np.full(3000, np.nan, np.float32)]
    wide = np.array([kv.rank == 0, kv.rank == kv.num_workers - 1, False])
    WideBlocks(kv, [3000]).sum_again(wide, grid, sums)
    assert np.array_equal(sums[0][:2048], (sum(totals)[:2048] * unit).astype(np.float32))
    assert np.isnan(sums[0][2048:]).all()


def pushing_does_not_wait(kv: Any) -> None:
    """A sum is asked for before its array is computed, and made once it is."""
    buckets = Buckets(kv, [(512, 512)], name="computed")
    square = mx.nd.ones((512, 512)) / 512
    mx.nd.waitall()
    started = time.monotonic()
    for _ in range(150):
        square = mx.nd.dot(square, square)
    mx.nd.dot(square, square, out=buckets.views[0])
    buckets.start_allreduce(buckets.views)
    pushed = time.monotonic() - started
    buckets.finish_allreduce(buckets.views)
    computed = time.monotonic() - started
    assert (buckets.views[0].asnumpy() == kv.num_workers / 512).all()
    assert pushed < computed / 2, f"{pushed:.2f} s, {computed:.2f} s"


@pytest.mark.parametrize("places", ["aa", pytest.param("aab", marks=slow), pytest.param("abc", marks=slow)])
def test_buckets_and_wide_blocks_are_as_with_servers(tmp_path: Path, places: str) -> None:
    succeed(tmp_path, places, sum_in_buckets)
