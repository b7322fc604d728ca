"""Fewer points of a curve: bounded, in order, and no extreme is lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxtrain.report.page.downsample import evenly, thinned


@given(
    st.lists(st.floats(-1e300, 1e300) | st.sampled_from([np.nan, np.inf, -np.inf]), max_size=300),
    st.integers(1, 50),
)
def test_points_are_bounded_and_no_extreme_is_lost(values: list[float], most: int) -> None:
    points = thinned(np.arange(len(values)), np.array(values, float), most)
    finite = [value for value in values if np.isfinite(value)]
    assert len(points.x) == len(points.mean) == len(points.low) == len(points.high) <= most
    assert (np.diff(points.x) > 0).all()
    assert (points.low <= points.mean).all() and (points.mean <= points.high).all()
    if finite:
        assert points.low.min() == min(finite) and points.high.max() == max(finite)
    if len(finite) <= most:
        assert points.mean.tolist() == finite and points.piece == 1


def test_points_of_a_run_that_goes_on_stay_what_they_are() -> None:
    values = np.random.default_rng(1).normal(size=200)
    before, after = (thinned(np.arange(n), values[:n], 50) for n in (150, 190))
    assert before.piece == after.piece == 4
    whole = 150 // 4
    for name in ("x", "mean", "low", "high"):
        np.testing.assert_array_equal(getattr(before, name)[:whole], getattr(after, name)[:whole])


@pytest.mark.parametrize(("number", "most"), [(3, 5), (5, 5), (6, 5), (1000, 7)])
def test_evenly_keeps_the_first_and_the_last(number: int, most: int) -> None:
    found = evenly(list(range(number)), most)
    assert found[0] == 0 and found[-1] == number - 1 and len(found) == min(number, most)
    assert found == sorted(set(found))
