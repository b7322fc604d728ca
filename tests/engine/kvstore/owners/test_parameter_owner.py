"""What one server owns: sums by pieces, arrays in files, and its part of all parameters."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from mxtrain.config import Optim
from mxtrain.kvstore.owners import layout as layouts
from mxtrain.kvstore.owners import placement
from mxtrain.kvstore.owners.parameter_owner import ParameterOwner
from mxtrain.kvstore.owners.step_sum import PIECE, StepSum
from mxtrain.optim.sums.grid import BLOCK, NO_BLOCKS
from mxtrain.optim.update import Update
from mxtrain.runtime import mx

SHAPES = [(3, 5), (PIECE // 8, 17), (1,)]


def owner(optimizer: str, folder: Path | None) -> ParameterOwner:
    parameters = [mx.gluon.Parameter(f"p{index}", shape=shape) for index, shape in enumerate(SHAPES)]
    layout = layouts.of_parameters(parameters, Optim(optimizer=optimizer))
    return ParameterOwner(layout, range(len(SHAPES)), 1, folder)


def numbers(index: int, step: int) -> np.ndarray:
    return np.random.default_rng([index, step]).normal(size=math.prod(SHAPES[index])).astype(np.float32)


def add(total: StepSum, values: np.ndarray, wide: np.ndarray, totals: np.ndarray) -> None:
    buffer = np.empty(PIECE, np.float32)
    for start in range(0, len(values), PIECE):
        room = total.room(start, buffer)
        room[:] = values[start : start + PIECE]
        total.add(start, room, wide, totals)


def train(owner: ParameterOwner, steps: int) -> list[np.ndarray]:
    for index in range(len(SHAPES)):
        owner.weights(index)[:] = numbers(index, 1000)
    for step in range(steps):
        for index in range(len(SHAPES)):
            add(owner.sum_of(index), numbers(index, step), *NO_BLOCKS)
            owner.finish_addend(index)
        assert owner.is_complete
        owner.step_sums()
        owner.apply(Update(0.01, 1.0))
    states = itertools.chain(*(owner.state(index) for index in range(len(SHAPES))))
    return [array.copy() for array in (*map(owner.weights, range(len(SHAPES))), *states)]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_arrays_in_files_have_the_same_bits(tmp_path: Path, optimizer: str) -> None:
    in_files = owner(optimizer, tmp_path)
    arrays = train(in_files, 3)
    assert all(map(np.array_equal, arrays, train(owner(optimizer, None), 3)))
    assert len(arrays) == len(SHAPES) * (3 if optimizer == "adam" else 2)
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(tmp_path) in line]
    # Weights, sums and states; of which none has a name.
    assert len(mapped) == len(arrays) + len(SHAPES)
    assert not list(tmp_path.iterdir())
    del in_files
    mx.nd.waitall()
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("num_workers", [2, 3])
def test_sums_are_those_of_float64_in_any_order(num_workers: int) -> None:
    """Some workers' blocks have 40 bits, others' 24, and numbers of one are -0, not finite, or too large together."""
    size = PIECE * 2 + BLOCK + 3
    rng = np.random.default_rng(num_workers)
    addends = []
    for _ in range(num_workers):
        exact = rng.integers(-(2**24), 2**24, size).astype(np.float64)
        wide = np.flatnonzero(rng.random(-(-size // BLOCK)) < 0.2)
        for block in wide:
            part = exact[block * BLOCK : (block + 1) * BLOCK]
            part[:] = rng.integers(-(2**40), 2**40, len(part))
        exact[:4] = -0.0, np.nan, 3e38, 1
        addends.append((exact, wide[wide > 0]))
    addends[0][0][3] = np.inf
    with np.errstate(over="ignore"):
        expected = sum(exact for exact, _ in addends).astype(np.float32)
    for order in itertools.permutations(range(num_workers)):
        total = StepSum(mx.nd.zeros((size,)), num_workers)
        for step in range(2):
            if step:
                total.restart()
            for rank in order:
                exact, wide = addends[rank]
                totals = np.concatenate([[], *(exact[block * BLOCK : (block + 1) * BLOCK] for block in wide)])
                add(total, exact.astype(np.float32), wide, totals)
                is_complete = total.finish_addend()
                assert is_complete == (rank == order[-1])
            assert np.array_equal(total.numbers[BLOCK:], expected[BLOCK:])
            assert np.array_equal(total.numbers[:4], [-0.0, np.nan, np.inf, np.inf], equal_nan=True)
            assert np.signbit(total.numbers[0])
            assert np.array_equal(
                total.maxima[1:], np.maximum.reduceat(abs(expected), range(0, size, BLOCK))[1:]
            )


@pytest.mark.parametrize("num_servers", [1, 2, 3, 7])
def test_servers_own_about_as_much(num_servers: int) -> None:
    sizes = [5, 1, 800, 40, 40, 300, 300, 300, 7]
    servers = placement.place(sizes, num_servers)
    owned = [placement.owned(servers, server) for server in range(num_servers)]
    assert sorted(itertools.chain(*owned)) == list(range(len(sizes)))
    totals = [sum(sizes[index] for index in each) for each in owned]
    assert max(totals) - min(totals) <= max(sizes)
    assert servers == placement.place(sizes, num_servers)


def test_more_servers_than_parameters_have_nothing() -> None:
    assert placement.place([3, 9], 4) == [1, 0]
    assert placement.owned([1, 0], 3) == []
