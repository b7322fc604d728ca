"""Sums on a grid are exact: the same bits in any order and any cut, in C and without."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mxtrain import native
from mxtrain.optim.sums import grid, grid_units
from mxtrain.optim.sums.grid import BLOCK, Grid
from mxtrain.optim.sums.grid_units import Units

NUM = 16  # gradients of a step
SIZE = 2 * BLOCK + 100
NEEDS_C = pytest.mark.skipif(native.add_on_grid is None, reason="mxtrain was installed without a C compiler")


def gradients(seed: int = 0, size: int = SIZE, num: int = NUM) -> np.ndarray:
    """Gradients whose elements differ by the factors that a net's do."""
    rng = np.random.default_rng(seed)
    spread = np.exp2(rng.integers(-12, 3, size))
    return (1e-3 * spread * rng.standard_normal((num, size))).astype(np.float32)


def known(numbers: np.ndarray, num_addends: int = NUM) -> Grid:
    """A grid after a step with the sum of these."""
    found = Grid([numbers.shape[1]], num_addends)
    total_of(found, numbers)
    found.end_step([found.totals[0].astype(np.float32)], is_applied=True)
    assert found.exponents is not None
    return found


def total_of(of: Grid, numbers: Any) -> np.ndarray:
    add(of, numbers, 1.0)
    return of.totals[0].copy() if len(numbers) else np.zeros_like(of.totals[0])


def add(of: Grid, numbers: Any, loss_scale: float) -> None:
    of.start_step(loss_scale)
    for number, each in enumerate(numbers):
        gradient = np.ascontiguousarray(each)
        if number == 0 and of.exponents is None:
            of.learn(of.maxima([gradient]))
        of.add([gradient])


def put(*numbers: tuple[int, int, float]) -> Callable[[np.ndarray], None]:
    def change(given: np.ndarray) -> None:
        for row, place, number in numbers:
            given[row % len(given), place % given.shape[1]] = number

    return change


def times(factor: float) -> Callable[[np.ndarray], None]:
    return lambda given: np.multiply(given, np.float32(factor), out=given)


CHANGES = {
    "none": times(1),
    "grown 2**10": times(2**10),
    "grown 2**20": times(2**20),
    "grown 2**26": times(2**26),
    "shrunk 2**10": times(2**-10),
    "shrunk 2**30": times(2**-30),
    "zeros": times(0),
    "negative zeros": lambda given: np.copyto(given, -0.0),
    "denormals": times(1e-38),
    "a block of zeros": lambda given: np.copyto(given[:, :BLOCK], 0),
    "an infinity": put((3, 5, np.inf)),
    "both infinities": put((3, 5, np.inf), (9, 5, -np.inf)),
    "no number": put((7, 50, np.nan)),
    "the largest float32": put((0, 0, 3.4e38), (5, 0, -3.4e38)),
    "an element grown 2**20": put((2, 17, 1e3)),
    "giants that cancel": put((3, 5, 1e3), (9, 5, -1e3)),
}


def exact(of: Grid, numbers: np.ndarray, place: int) -> Fraction:
    """The sum of one element, each addend rounded to its block's unit, ties to even."""
    unit = Fraction(2) ** int(of.exponents[place // BLOCK])
    return sum((round(Fraction(float(number)) / unit) * unit for number in numbers[:, place]), Fraction(0))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("size", [SIZE, 1])
def test_a_sum_is_exact_and_the_same_in_any_order_and_cut(change: str, size: int) -> None:
    numbers = gradients(size=SIZE)[:, -size:].copy()
    of, rng = known(numbers), np.random.default_rng(1)
    CHANGES[change](numbers)
    found = total_of(of, numbers)
    limit = np.repeat(np.exp2(of.exponents + of.reach), BLOCK)[:size]
    is_finite, is_reached = np.isfinite(numbers), np.abs(numbers) <= limit
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(np.isnan(found), (~is_finite).any(axis=0))
        np.testing.assert_array_equal(
            np.isinf(found), (is_finite & ~is_reached).any(axis=0) & is_finite.all(axis=0)
        )
    for place in {0, 5, 17, 50, BLOCK - 1, BLOCK, size - 1}:
        if place < size and np.isfinite(found[place]):
            assert Fraction(float(found[place])) == exact(of, numbers, place)
    for _ in range(8):
        order = rng.permutation(NUM)
        parts = np.split(order, np.sort(rng.integers(0, NUM + 1, 3)))
        np.testing.assert_array_equal(total_of(of, numbers[order]), found)
        with np.errstate(invalid="ignore"):
            cut = sum((total_of(of, numbers[part]) for part in parts), np.zeros(size))
        np.testing.assert_array_equal(cut, found)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    numbers=st.lists(st.floats(-(2.0**20), 2.0**20, width=32), min_size=1, max_size=9),
    exponent=st.integers(-126, 20),
    data=st.data(),
)
@example(numbers=[0.5, 1.5, 2.5, -0.5, -1.5], exponent=0, data=None)
def test_rounding_is_to_the_nearest_unit_ties_to_even(numbers: list[float], exponent: int, data: Any) -> None:
    order = numbers if data is None else data.draw(st.permutations(numbers))
    of = Grid([1], len(numbers))
    of.units = Units(np.array([exponent], np.int32), None)
    reachable = [each for each in order if abs(each) <= 2.0 ** (exponent + of.reach)]
    found = total_of(of, [np.array([each], np.float32) for each in reachable])
    column = np.array(reachable).reshape(-1, 1)
    assert Fraction(float(found[0])) == exact(of, column, 0)


@NEEDS_C
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("size", [SIZE, BLOCK, 7, 1, 3 * grid.PIECE + 5])
def test_numpy_gives_the_bits_of_the_part_in_c(
    change: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    num = 2 if size > SIZE else NUM
    numbers = np.resize(gradients(), (num, size))
    of = known(numbers, num)
    CHANGES[change](numbers)
    ours = total_of(of, numbers)
    of.end_step([numbers[0]], is_applied=True)
    exponents = of.exponents
    monkeypatch.setattr(native, "add_on_grid", None)
    monkeypatch.setattr(native, "block_maxima", None)
    of = known(np.resize(gradients(), (num, size)), num)
    np.testing.assert_array_equal(total_of(of, numbers), ours)
    of.end_step([numbers[0]], is_applied=True)
    np.testing.assert_array_equal(of.exponents, exponents)


def test_the_error_of_a_sum_is_millionths_of_its_blocks_largest() -> None:
    numbers = gradients()
    found = total_of(known(numbers), numbers)
    right = numbers.astype(np.float64).sum(axis=0)
    for start in range(0, SIZE, BLOCK):
        block = slice(start, start + BLOCK)
        error = np.abs(found[block] - right[block]).max() / np.abs(right[block]).max()
        assert 0 < error < 2 * NUM**0.5 * 2.0**-grid_units.TARGET


def test_a_loss_scale_of_a_power_of_two_moves_no_bit() -> None:
    numbers = gradients()
    plain, scaled = Grid([SIZE], NUM), Grid([SIZE], NUM)
    for step in range(3):
        found = total_of(plain, numbers)
        factor = 2.0 ** (5 * step)
        add(scaled, list(numbers * np.float32(factor)), factor)
        np.testing.assert_array_equal(scaled.totals[0], found * factor)
        scaled.end_step([scaled.totals[0].astype(np.float32)], is_applied=True)
        plain.end_step([found.astype(np.float32)], is_applied=True)
        np.testing.assert_array_equal(scaled.exponents, plain.exponents)


def test_a_step_that_is_not_applied_leaves_the_grid_as_it_was() -> None:
    """Also the first one; but where a number was out of reach the next step takes a grid that reaches it."""
    numbers = gradients()
    fresh, used = Grid([SIZE], NUM), known(numbers)
    for of in (fresh, used):
        before = of.units
        for bad, is_applied in ((np.nan, False), (np.inf, False), (1.0, False)):
            with_bad = numbers.copy()
            with_bad[4, 4] = bad
            sums = total_of(of, with_bad)
            of.end_step([sums.astype(np.float32)], is_applied)
            assert of.units is before
    far = numbers * np.float32(2.0**60)
    assert np.isinf(total_of(used, far)).any()
    used.end_step([used.totals[0].astype(np.float32)], is_applied=False)
    assert np.isfinite(total_of(used, far)).all()


def test_a_first_gradient_that_is_not_finite_makes_the_step_so() -> None:
    numbers = gradients()
    numbers[0, 3] = np.inf
    of = Grid([SIZE], NUM)
    assert np.isnan(total_of(of, numbers)).all()


@pytest.mark.parametrize(("size", "is_finite"), [(2e38, False), (2.0**124 * 1.5, True), (2.0**125, True)])
def test_no_sum_leaves_float32_whatever_part_of_it_who_adds(size: float, is_finite: bool) -> None:
    """One worker's part must not be too large for float32 where the whole sum is not."""
    numbers = np.float32(size) * np.array([[1], [1], [-1], [0]], np.float32)
    of = Grid([1], len(numbers))
    of.learn(np.array([size]))
    whole = total_of(of, numbers)
    parts = [total_of(of, part).astype(np.float32) for part in (numbers[:2], numbers[2:])]
    assert np.isfinite(whole).all() == np.isfinite(parts).all() == is_finite
    assert not is_finite or (sum(parts) == whole).all()


def test_units_follow_sums_up_at_once_and_down_in_steps() -> None:
    """Slowly to within four bits of what the last sums want, and in eight bits a step from farther away."""
    numbers = gradients()
    of = known(numbers)
    start = of.exponents
    wanted = (12, 11, 10, 0, 0, 8, -6, -6, -6, -6)
    for bits, change in zip(wanted, (12, 11, 10, 4, 2, 8, 0, -2, -4, -6)):
        total_of(of, numbers * np.float32(2.0**bits))
        of.end_step([of.totals[0].astype(np.float32)], is_applied=True)
        np.testing.assert_array_equal(of.exponents - start, change)


def test_blocks_that_have_been_zero_for_long_are_within_reach_when_they_are_not() -> None:
    """As the rows of a dense table that no sample has used for a while, and as large as any other then."""
    numbers = gradients()
    silent = numbers.copy()
    silent[:, :BLOCK] = 0
    of = known(silent)
    for _ in range(40):
        of.end_step([total_of(of, silent).astype(np.float32)], is_applied=True)
    found = total_of(of, numbers * np.float32(100))
    assert np.isfinite(found).all()
    right = 100 * numbers.astype(np.float64).sum(axis=0)
    np.testing.assert_allclose(found, right, atol=1e-4 * np.abs(right).max())


def test_a_net_without_gradients_has_none_and_learns_when_it_has() -> None:
    nothing, numbers = np.zeros((NUM, SIZE), np.float32), gradients()
    of = known(numbers)
    sums = total_of(of, nothing)
    assert not sums.any()
    of.end_step([sums.astype(np.float32)], is_applied=True)
    tiny = numbers * np.float32(2.0**-60)
    np.testing.assert_allclose(
        total_of(of, tiny), tiny.astype(np.float64).sum(axis=0), atol=1e-4 * np.abs(tiny).max()
    )


def test_units_of_other_parameters_are_not_restored_nor_those_of_rules_to_come() -> None:
    of = Grid([SIZE, 5], NUM)
    more = {"levels": np.zeros(4, np.int32), "peaks": np.zeros(2, np.int32)}
    for rule in (2, 3):
        assert of.restore(rule, {"exponents": np.zeros(3, np.int32), **more}) and of.units is None
    assert not of.restore(4, {"exponents": np.zeros(4, np.int32), **more}) and of.units is None
    assert of.restore(2, {"exponents": np.zeros(4, np.int32), **more}) and of.units is not None
    assert of.units.peaks is None
    assert of.restore(3, {"exponents": np.zeros(4, np.int32), **more}) and of.units.peaks is not None


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 99), shift=st.integers(0, 40), has_c=st.booleans())
def test_two_gradients_rounded_in_place_add_to_the_sum_of_one_worker(
    seed: int, shift: int, has_c: bool
) -> None:
    """However many digits they have: so no block of theirs is wide."""
    numbers = gradients(seed, num=2)
    numbers[1] = np.ldexp(numbers[1], shift)
    whole = Grid([SIZE], 2)
    rounded = []
    with pytest.MonkeyPatch.context() as patch:
        if not has_c:
            patch.setattr(native, "add_on_grid", None)
        add(whole, numbers, 1.0)
        for gradient in numbers.copy():
            one = Grid([SIZE], 2, is_single=True, in_place=True)
            one.start_step(1.0)
            one.learn(whole.maxima(numbers[:1]))
            one.add([gradient], is_last=True)
            rounded.append(gradient)
    np.testing.assert_array_equal(rounded[0] + rounded[1], whole.totals[0].astype(np.float32))
