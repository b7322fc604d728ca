"""Means of running statistics over the micro-batches of a step are exact, whoever computes which of them."""

from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mxtrain.core import limbs
from mxtrain.models.parameters.running_statistics import LARGEST, UNITS, add_limbs, num_rows, sum_of_limbs

SIZE = 40
EDGES = (0.0, -0.0, 1e-12, -1e-12, 1e12, -1e12, LARGEST, 2.0**-68, 2.0**-69, 1e-38, 1e-45, 1.0, -1.0)


def statistics(seed: int, num: int) -> np.ndarray:
    """What micro-batches leave: numbers of every size, with the same size in all of them or not, and edges."""
    rng = np.random.default_rng(seed)
    sizes = np.exp2(rng.uniform(-40, 39, SIZE)) * np.exp2(
        rng.uniform(-20, 0, (num, SIZE)) * rng.integers(0, 2, SIZE)
    )
    found = (sizes * rng.choice([-1, 1], (num, SIZE))).astype(np.float32)
    found[:, -10:] = rng.choice(EDGES, (num, 10))
    return found


def total(rows: Any, weights: Sequence[float], worker_of: Any, order: Any) -> Any:
    """The sum over workers, each of which has added its rows in this order, as servers add it: in float32."""
    found = np.zeros((len(UNITS), rows.shape[1]), np.float32)
    for worker in dict.fromkeys(worker_of[order]):
        own = np.zeros(found.shape)
        for number in (each for each in order if worker_of[each] == worker):
            add_limbs(own, rows[number], weights[number])
        limbs.carry(own, UNITS)
        sent = own.astype(np.float32)
        np.testing.assert_array_equal(sent, own)
        found += sent
    return sum_of_limbs(found)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**31),
    num=st.sampled_from([7, 8, 16, 50, 256]),
    num_workers=st.sampled_from([1, 2, 3, 5, 16, 64]),
    micro_batch=st.integers(1, 100),
)
def test_any_order_and_any_cut_have_the_same_bits(
    seed: int, num: int, num_workers: int, micro_batch: int
) -> None:
    rows, rng = statistics(seed, num), np.random.default_rng(seed)
    num_samples = [micro_batch] * (num - 1) + [int(rng.integers(1, micro_batch + 1))]
    weight = 0.5 ** math.ceil(math.log2(micro_batch * num))
    weights = [each * weight for each in num_samples]
    alone = total(rows, weights, np.zeros(num, int), np.arange(num))
    shared = total(rows, weights, rng.integers(0, num_workers, num), rng.permutation(num))
    assert alone.tobytes() == shared.tobytes()

    for column, found in zip(rows.astype(float).T, alone):
        exact = math.fsum(column * weights)  # of products without rounding, rounded once
        assert abs(found - exact) <= 2.0**-50 * abs(exact) + num * UNITS[-1] / 2


@pytest.mark.parametrize("size", [1e-12, 1e-9, 1e-3, 1.0, 1e6, 1e12])
def test_the_mean_is_that_of_float64_within_the_rounding_of_float32(size: float) -> None:
    num, micro_batch = 16, 32
    rows = (size * np.random.default_rng(0).uniform(0.1, 1, (num, 1000))).astype(np.float32)
    weight = micro_batch / 512
    found = total(rows, [weight] * num, np.arange(num) % 4, np.arange(num)).astype(np.float32)
    np.testing.assert_array_max_ulp(found, rows.astype(np.float64).mean(axis=0).astype(np.float32), 1)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ({3: np.inf}, np.inf),
        ({3: -np.inf}, -np.inf),
        ({3: np.inf, 4: -np.inf}, np.nan),
        ({3: np.nan}, np.nan),
        ({3: 1.2e12}, np.inf),
        ({3: -3e38}, -np.inf),
    ],
)
def test_what_is_not_finite_or_out_of_range_is_seen(numbers: dict[int, float], expected: float) -> None:
    rows = statistics(0, 8)
    right = total(rows, [1 / 8] * 8, np.arange(8) % 3, np.arange(8))
    for row, number in numbers.items():
        rows[row, 5] = number
    for num_workers in (1, 3):
        with np.errstate(invalid="ignore"):
            found = total(rows, [1 / 8] * 8, np.arange(8) % num_workers, np.arange(8))
        np.testing.assert_array_equal(found[5], expected)
        np.testing.assert_array_equal(np.delete(found, 5), np.delete(right, 5))


def test_many_micro_batches_have_no_more_rows_than_a_few() -> None:
    assert [num_rows(number) for number in (1, 2, 6, 7, 16, 1000)] == [1, 2, 6, 6, 6, 6]
