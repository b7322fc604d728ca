"""Gradients that MXNet's engine adds while others are computed: the bits of those that are waited for."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mxtrain import native
from mxtrain.cluster.worker_group import SingleWorker
from mxtrain.kvstore.buckets import Buckets
from mxtrain.optim.sums.exact_gradients import ExactAccumulator
from mxtrain.optim.sums.gradients import compute_gradient_in
from mxtrain.optim.sums.grid import Grid
from mxtrain.runtime import mx

NUM = 3  # micro-batches at most
pytestmark = pytest.mark.skipif(
    native.new_addition is None, reason="mxtrain was installed without a C compiler"
)


class FirstOfTwo(SingleWorker):
    world_size = 2


class SilentStore:
    rank, num_workers = 0, 2

    def init(self, *_: Any) -> None:
        """Know nothing of keys."""


class Worker:
    """Parameters whose gradients are views of buckets, and what adds them; is it made to wait for each?"""

    def __init__(
        self, shapes: Sequence[tuple[int, ...]], is_single: bool, is_held: bool, in_place: bool = False
    ):
        self.is_held = is_held
        sizes = [int(np.prod(shape)) for shape in shapes]
        self.grid = Grid(sizes, 2 * NUM, is_single, in_place=in_place)
        self.parameters = [mx.gluon.Parameter(f"p{n}", shape=shape) for n, shape in enumerate(shapes)]
        for parameter, view in zip(self.parameters, Buckets(SilentStore(), shapes, bucket_mb=0.01).views):
            parameter.initialize(mx.init.One())
            compute_gradient_in(view, parameter)

    def step(self, micro_batches: Sequence[Sequence[np.ndarray]]) -> tuple[list[Any], ...]:
        added = ExactAccumulator(self.parameters, [mx.cpu()], self.grid, 1.0, FirstOfTwo())
        assert added.waits == (self.grid.exponents is None)
        added.waits = added.waits or self.is_held
        for gradients in micro_batches:
            added.before_backward(mx.cpu())
            with mx.autograd.record():
                terms = [(p.data() * mx.nd.array(each)).sum() for p, each in zip(self.parameters, gradients)]
            mx.autograd.backward(terms)
        sums = [each.copy() for each in added.write_sums()]  # queued behind the sums
        mx.nd.waitall()
        is_wide = added.wide_blocks().tolist()
        totals = [total.astype(np.float64) for total in self.grid.totals]
        found = [each.asnumpy() for each in sums]
        added.end_step(all(np.isfinite(each).all() for each in found))
        return found, totals, is_wide, [self.grid.exponents]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    shapes=st.lists(
        st.sampled_from([(1,), (7,), (1024,), (90, 100), (3, 5, 70), (12_000,)]), min_size=1, max_size=5
    ),
    steps=st.lists(
        st.tuples(
            st.integers(0, NUM), st.integers(-9, 30), st.sampled_from([0.0, 0.0, np.nan, np.inf, 3e38])
        ),
        min_size=1,
        max_size=5,
    ),
    seed=st.integers(0, 99),
)
def test_the_engine_adds_to_the_same_bits(
    shapes: list[tuple[int, ...]], steps: list[tuple[int, int, float]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    is_single = max(number for number, *_ in steps) <= 1
    workers = [Worker(shapes, is_single, is_held) for is_held in (False, True)]
    for number, exponent, extra in [(1, 0, 0.0), *steps]:
        given_out = [
            [np.ldexp(rng.standard_normal(shape), exponent).astype(np.float32) for shape in shapes]
            for _ in range(number)
        ]
        for gradients in given_out[:1]:
            gradients[0].reshape(-1)[0] += extra
        queued, held = (worker.step(given_out) for worker in workers)
        for these, those in zip(queued, held):
            for one, other in zip(these, those):
                np.testing.assert_array_equal(one, other)


def test_a_single_gradient_has_the_digits_of_a_sum_in_float64() -> None:
    shapes, rng = [(2000,), (30, 40)], np.random.default_rng(0)
    workers = [Worker(shapes, is_single, is_held=False) for is_single in (True, False)]
    for exponent in (0, 0, 25, 0, 120, -130):
        gradients = [np.ldexp(rng.standard_normal(shape), exponent).astype(np.float32) for shape in shapes]
        one, other = (worker.step([gradients]) for worker in workers)
        for these, those in zip(one, other):
            for mine, theirs in zip(these, those):
                np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("is_held", [False, True])
def test_a_gradient_is_rounded_where_it_is_to_the_bits_of_a_total(is_held: bool) -> None:
    shapes, rng = [(2000,), (30, 40)], np.random.default_rng(0)
    in_place, apart = (Worker(shapes, True, is_held, in_place=each) for each in (True, False))
    for exponent, extra in ((0, 0), (0, np.nan), (25, 0), (0, np.inf), (0, 0), (120, 0), (-130, 0)):
        gradients = [np.ldexp(rng.standard_normal(shape), exponent).astype(np.float32) for shape in shapes]
        gradients[0][3] += extra
        (found, totals, is_wide, units), (expected, _, _, others) = (
            worker.step([gradients]) for worker in (in_place, apart)
        )
        assert not totals and not any(is_wide)
        for these, those in zip([*found, *units], [*expected, *others]):
            np.testing.assert_array_equal(these, those)
