"""Each block of gradients has a unit that sees it, however small it is beside others, and however it changes."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mxtrain.optim.sums import grid_units
from mxtrain.optim.sums.grid import BLOCK, Grid

ENOUGH = 2.0**-10  # of a block's largest: what rounding may take


class Blocks:
    """A grid of parameters of so many blocks, whose gradients are one number a block."""

    def __init__(self, counts: Sequence[int], rule: int = grid_units.RULE, num_addends: int = 4):
        self.grid = Grid([BLOCK * count for count in counts], num_addends)
        self.grid.rule, self.counts, self.num_addends = rule, counts, num_addends

    def step(self, numbers: Sequence[float]) -> Any:
        """Return the sum of each block over `num_addends` equal gradients, divided by their number."""
        return self.step_of([numbers] * self.num_addends) / self.num_addends

    def step_of(self, rows: Sequence[Sequence[float]]) -> Any:
        """Return the sum of each block over gradients that differ; not finite where a number was out of reach."""
        self.grid.start_step(1.0)
        addends = [
            np.split(np.repeat(np.float32(row), BLOCK), np.cumsum(self.counts)[:-1] * BLOCK) for row in rows
        ]
        if self.grid.units is None:
            self.grid.learn(self.grid.maxima(addends[0]))
        for gradients in addends:
            self.grid.add(gradients)
        sums = [total.astype(np.float32) for total in self.grid.totals]
        found = np.concatenate(sums)[::BLOCK].astype(np.float64)
        self.grid.end_step(sums, is_applied=bool(np.isfinite(found).all()))
        return found


@pytest.mark.parametrize("bits", [20, 39, 60, 100])
def test_a_block_far_below_the_largest_is_seen(bits: int) -> None:
    blocks, small = Blocks([1, 2]), 2.0**-bits / 3
    for _ in range(30):
        np.testing.assert_allclose(blocks.step([1, small, 3 * small]), [1, small, 3 * small], rtol=ENOUGH)


@pytest.mark.parametrize("bits", [19, 25, 38, 60])
def test_a_block_that_falls_at_once_is_seen_again_after_some_steps(bits: int) -> None:
    """Also one whose unit a single giant has made."""
    blocks, small = Blocks([2, 1]), 2.0**-bits / 3
    blocks.step([1, 1, small / 5])
    blocks.step([1, 1, small / 5])
    for _ in range(12):
        found = blocks.step([small, small / 3, small / 5])
    np.testing.assert_allclose(found, [small, small / 3, small / 5], rtol=ENOUGH)


def test_a_block_that_falls_while_others_stay_is_seen_again_down_to_2_to_the_35th() -> None:
    """Below that it has no sum, as docs/adr/0020 says."""
    for bits, is_seen in ((35, True), (45, False)):
        blocks = Blocks([1, 1])
        blocks.step([1, 1])
        for _ in range(12):
            found = blocks.step([2.0**-bits, 1])
        assert (found[0] > 0) == is_seen, bits


@pytest.mark.parametrize("steps", [1, 5, 100])
def test_an_idle_block_is_within_reach_when_it_comes_back(steps: int) -> None:
    """As large as before or 2**10 times that, and never seen before, as large as the rest of its parameter."""
    small = 2.0**-50
    for back in (1.0, 2.0**10, 2.0**-10):
        blocks = Blocks([1, 3])
        blocks.step([1, small, small, 0])
        for _ in range(steps):
            assert (blocks.step([1, 0, small, 0]) > 0).tolist() == [True, False, True, False]
        found = blocks.step([1, back * small, small, back * small])
        np.testing.assert_allclose(found, [1, back * small, small, back * small], rtol=2 * ENOUGH)


def test_a_parameter_that_begins_late_is_within_reach_of_the_nets_largest() -> None:
    """As layers before one whose weights are zero at first."""
    for late in (2.0**10, 1.0, 2.0**-30):
        blocks = Blocks([1, 2])
        for _ in range(50):
            blocks.step([1, 0, 0])
        np.testing.assert_allclose(blocks.step([1, late, late]), [1, late, late], rtol=2.0**-8)


def test_the_second_rule_has_no_row_of_a_class_within_reach() -> None:
    blocks = Blocks([2], rule=2)
    assert not np.isfinite(blocks.step_of([[1, 2.0**-45], [1, 1]])).all()
    assert blocks.grid.units is None


def test_the_first_rule_takes_what_is_far_below_the_largest_for_zero() -> None:
    blocks = Blocks([1, 2], rule=1)
    for _ in range(30):
        found = blocks.step([1, 2.0**-30, 2.0**-41])
    assert found[1] == 2.0**-30 and found[2] == 0
    assert blocks.grid.units is not None and blocks.grid.units.levels is None


@pytest.mark.parametrize("bits", [20, 45, 80, 140])
def test_rows_of_classes_are_within_reach_when_a_sample_has_the_class(bits: int) -> None:
    """Its gradient is tiny, for a net that is certain, until then: in the first step and in any later one."""
    tiny = 2.0**-bits
    for waited in (0, 1, 7, 100):
        blocks, turn = Blocks([3]), [[1, tiny, tiny], [tiny, 1, tiny]]
        for _ in range(waited):
            blocks.step_of(turn)
        np.testing.assert_allclose(blocks.step_of([[1, tiny, tiny], [tiny, tiny, 30]]), [1, 0, 30], atol=1e-5)


@pytest.mark.parametrize("waited", [0, 5, 1000])
def test_a_parameter_that_has_been_large_is_within_reach_again(waited: int) -> None:
    """As the output for a rare class is, in a layer of its own."""
    blocks, tiny = Blocks([1, 1]), 2.0**-70
    blocks.step([1, 1])
    for _ in range(waited):
        blocks.step([1, tiny])
    np.testing.assert_allclose(blocks.step([1, 8]), [1, 8], rtol=ENOUGH)


@pytest.mark.parametrize("bits", [50, 75, 100])
def test_a_parameter_that_jumps_to_the_nets_largest_costs_one_step_and_no_other(bits: int) -> None:
    blocks, tiny = Blocks([1, 2]), 2.0**-bits
    for _ in range(5):
        blocks.step([1, tiny, tiny])
    assert not np.isfinite(blocks.step([1, 1, tiny])).all()
    for waited in (0, 1, 300):
        for _ in range(waited):
            assert np.isfinite(blocks.step([1, tiny, tiny])).all()
        np.testing.assert_allclose(blocks.step([1, tiny, 2]), [1, 0, 2], atol=ENOUGH)


@pytest.mark.parametrize("bits", [50, 100, 220])
def test_a_net_that_grows_out_of_reach_as_a_whole_costs_one_step(bits: int) -> None:
    blocks = Blocks([1, 2])
    blocks.step([2.0 ** (100 - bits)] * 3)
    found = [np.isfinite(blocks.step([2.0**100, 0, 2.0**100])).all() for _ in range(4)]
    assert found == [False, True, True, True]


def test_what_grows_beyond_the_nets_largest_is_within_reach_after_some_steps() -> None:
    blocks = Blocks([1, 2])
    blocks.step([2.0**-60] * 3)
    found = [np.isfinite(blocks.step([2.0**40, 2.0**-60, 2.0**40])).all() for _ in range(5)]
    assert found == [False, False, True, True, True]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data(), counts=st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_whatever_the_steps_were_equal_ones_are_summed_well_in_the_end(data: Any, counts: list[int]) -> None:
    """From any history of blocks that come, go, grow and shrink, within twenty steps."""
    size, rng = sum(counts), np.random.default_rng(data.draw(st.integers(0, 2**32)))
    blocks = Blocks(counts)
    for _ in range(data.draw(st.integers(0, 8))):
        blocks.step(np.exp2(rng.integers(-60, 20, size)) * (rng.random(size) < 0.7))
    last = np.exp2(rng.integers(-19, 1, size)) * (rng.random(size) < 0.8)
    for _ in range(20):
        found = blocks.step(last)
    np.testing.assert_allclose(found, last, rtol=ENOUGH)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32), shift=st.integers(-20, 20))
def test_a_loss_scale_that_is_a_power_of_two_moves_no_unit(seed: int, shift: int) -> None:
    rng = np.random.default_rng(seed)
    counts = np.array([2, 3])
    maxima = (np.exp2(rng.integers(-60, 20, (2, 5))) * (rng.random((2, 5)) < 0.6)).astype(np.float32)
    scaled = np.ldexp(maxima, shift)
    plain = grid_units.following(grid_units.first(maxima[0], 0, counts), maxima[1], 0, counts)
    with_scale = grid_units.following(grid_units.first(scaled[0], shift, counts), scaled[1], shift, counts)
    if maxima[0].any() and maxima[1].any():
        for mine, other in zip(with_scale, plain):
            np.testing.assert_array_equal(mine, other)
