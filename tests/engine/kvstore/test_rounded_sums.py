"""Sums that are rounded by who adds them: the bits of arrays that each worker rounds, that are added and looked at."""

from __future__ import annotations

from typing import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mxtrain import native
from mxtrain.kvstore import shared_arrays
from mxtrain.kvstore.allreduce.partition import owned
from mxtrain.kvstore.buckets import _blocks, lay_out
from mxtrain.kvstore.shared_arrays import Shared
from mxtrain.optim.sums import block_tables, squares
from mxtrain.optim.sums.block_tables import TABLE, Rounding
from mxtrain.optim.sums.grid import BLOCK, Grid
from mxtrain.runtime import mx

SIZES = [1, 7, 8, 1023, 1024, 1025, 3000, 20_000]
EXTRA = [0.0, 0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45, -(2.0**-126), 2.0**80]
needs_kernel = pytest.mark.skipif(
    native.OPERATORS is None, reason="mxtrain was installed without a C compiler"
)


def known_grid(sizes: Sequence[int], exponent: int, rng: np.random.Generator) -> Grid:
    """A grid whose blocks want units around this exponent."""
    grid = Grid(sizes, num_addends=2, is_single=True, in_place=True)
    grid.start_step(1.0)
    of_blocks = np.exp2(rng.integers(-9, 9, grid.ends[-1]) + np.clip(exponent, -110, 110))
    grid.learn(of_blocks)
    return grid


def new_table(lengths: np.ndarray) -> np.ndarray:
    table = np.zeros(len(lengths), TABLE)
    block_tables.fill(table, lengths)
    return table


def in_buckets(gradients: Sequence[np.ndarray], grid: Grid) -> tuple[list[Shared], Rounding]:
    """One worker's gradients, end to end in buckets from the last to the first, and what has them rounded."""
    shapes = [each.shape for each in gradients]
    found, numbers = [], []
    for segments in lay_out(shapes, max_elements=4000):
        blocks = _blocks(segments, shapes)
        table = new_table(blocks.lengths)
        bucket = np.concatenate([gradients[each.array][each.start : each.stop] for each in segments])
        found.append(Shared(bucket, table))
        numbers.append(blocks.numbers)
    return found, Rounding(grid, [each.table for each in found], numbers)


def rounded_apart(workers: Sequence[Sequence[np.ndarray]], grid: Grid) -> list[np.ndarray]:
    """The sums of two workers, each of which rounds its gradients before."""
    for gradients in workers:
        grid.is_empty = True
        grid.add(gradients, is_last=True)
    for arrays in zip(*workers):
        shared_arrays.add_in_place(arrays)
    return [*workers[0]]


@needs_kernel
@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    sizes=st.lists(st.sampled_from(SIZES), min_size=1, max_size=5),
    exponent=st.integers(-140, 120),
    shift=st.integers(-30, 30),
    extras=st.lists(st.sampled_from(EXTRA), min_size=2, max_size=2),
    num_parts=st.integers(1, 3),
    seed=st.integers(0, 999),
)
def test_bits_are_those_of_three_passes(
    sizes: list[int], exponent: int, shift: int, extras: list[float], num_parts: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    grid = known_grid(sizes, exponent, rng)
    workers = []
    for extra, factor in zip(extras, (exponent, exponent + shift)):
        with np.errstate(over="ignore"):
            numbers = [
                np.ldexp(rng.standard_normal(size), np.clip(factor, -149, 110)).astype(np.float32)
                for size in sizes
            ]
        numbers[-1][rng.integers(sizes[-1])] += np.float32(extra)
        numbers[0][:: rng.integers(1, 9)] = 0
        workers.append(numbers)
    sides = [in_buckets(numbers, grid) for numbers in workers]
    for _, rounding in sides:
        rounding.start()
    for pair in zip(*(arrays for arrays, _ in sides)):
        for part in range(num_parts):
            shared_arrays.add_shared(pair, owned(len(pair[0].numbers), part, num_parts))

    sums = rounded_apart(workers, grid)
    expected, _ = in_buckets(sums, grid)
    measured = squares.measure(list(map(mx.nd.array, sums)))
    for arrays, rounding in sides:
        for found, wanted in zip(arrays, expected):
            assert np.array_equal(found.numbers, wanted.numbers, equal_nan=True)
            assert not np.signbit(found.numbers[found.numbers == 0]).any()
        for one, other in zip(rounding.measured(), measured):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("reach", [0, 51])
def test_arrays_are_rounded_from_when_they_are_said_to_be(reach: int) -> None:
    blocks = block_tables.blocks_of([(0, 3)])
    workers = []
    for _ in range(2):
        table = new_table(blocks.lengths)
        table["reach"] = reach
        workers.append(Shared(np.array([0.25, 0.5, 1.75], np.float32), table))
    if reach and native.OPERATORS is None:
        with pytest.raises(ValueError, match="no kernel"):
            shared_arrays.add_shared(workers, slice(0, 3))
        return
    shared_arrays.add_shared(workers, slice(0, 3))
    for each in workers:
        assert each.numbers.tolist() == ([0, 0, 4] if reach else [0.5, 1, 3.5])


def test_three_arrays_are_not_rounded() -> None:
    """Float32 would round their sum twice."""
    table = new_table(np.array([3]))
    table["reach"] = 51
    with pytest.raises(ValueError, match="3 arrays"):
        shared_arrays.add_shared([Shared(np.ones(3, np.float32), table)] * 3, slice(0, 3))


@pytest.mark.parametrize("size", [1, BLOCK, BLOCK + 1, 70_001])
def test_a_table_of_another_array_is_seen(size: int) -> None:
    lengths = block_tables.blocks_of([(0, size)]).lengths
    table = new_table(lengths)
    assert block_tables.is_whole(table, size)
    assert not block_tables.is_whole(table, size + 1) and not block_tables.is_whole(table[1:], size)
    table["start"][-1] += 1
    assert not block_tables.is_whole(table, size)


@pytest.mark.parametrize("sizes", [[50_000], [1000, 33_000, 5], [2048, 100_000]])
def test_buckets_have_whole_blocks_alone(sizes: list[int]) -> None:
    """Those that an array is split into too, so that each block of a grid is in one of them."""
    shapes = [(size,) for size in sizes]
    found = [_blocks(segments, shapes) for segments in lay_out(shapes, max_elements=5000)]
    numbers, lengths = (np.concatenate(each) for each in zip(*found))
    assert sorted(numbers.tolist()) == list(range(Grid(sizes, 2).ends[-1]))
    assert lengths.sum() == sum(sizes) and lengths.max() <= BLOCK
