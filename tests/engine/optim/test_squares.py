"""Squares and the largest numbers of blocks in one pass: what float64 and the grid say of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mxtrain import native
from mxtrain.optim import precision
from mxtrain.optim.sums import squares
from mxtrain.optim.sums.grid import Grid
from mxtrain.runtime import mx

needs_kernels = pytest.mark.skipif(
    native.OPERATORS is None, reason="mxtrain was installed without a C compiler"
)


@needs_kernels
@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.sampled_from([1, 7, 8, 15, 16, 17, 1023, 1024, 1025, 5000]), min_size=1, max_size=5),
    seed=st.integers(0, 1000),
    extra=st.sampled_from([0.0, 0.0, np.inf, -np.inf, np.nan, 2e19, 1e-45]),
)
def test_squares_and_maxima(sizes: list[int], seed: int, extra: float) -> None:
    rng = np.random.default_rng(seed)
    arrays = [(rng.normal(size=size) * 10.0 ** rng.integers(-20, 12)).astype(np.float32) for size in sizes]
    arrays[-1][rng.integers(sizes[-1])] += np.float32(extra)
    found = squares.measure(list(map(mx.nd.array, arrays)))
    with np.errstate(over="ignore"):
        expected = np.array([math.fsum(each.astype(np.float64) ** 2) for each in arrays]).astype(np.float32)
    np.testing.assert_allclose(found.squares, expected, rtol=2e-7)
    np.testing.assert_array_equal(found.maxima, Grid(sizes, 1).maxima(arrays))


@needs_kernels
def test_norms_do_not_depend_on_where_arrays_lie() -> None:
    numbers = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    flat = mx.nd.array(np.concatenate([[0.0], numbers]))
    assert precision.l2_norm([flat[1:]]) == precision.l2_norm([mx.nd.array(numbers).reshape((50, 100))])


def test_others_are_mxnets(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = mx.nd.sparse.row_sparse_array((np.full((1, 2), 3, np.float32), [1]), shape=(4, 2))
    arrays: list[Any] = [mx.nd.ones((5,)), rows, mx.nd.sparse.zeros("row_sparse", (4, 2))]
    assert squares.measure(arrays).maxima is None
    assert squares.squares(arrays).tolist() == [5, 18, 0]
    monkeypatch.setattr(native, "OPERATORS", None)
    assert squares.measure(arrays[:1]).maxima is None
    assert precision.lengths(arrays[:1]) == [pytest.approx(math.sqrt(5))]
    assert precision.l2_norm([]) == 0
