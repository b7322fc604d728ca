import math

import numpy as np
import pytest

from mxtrain.core import exact_sum


@pytest.mark.parametrize("count", [0, 1, 2, 7, 3000])
@pytest.mark.parametrize("reach", [0, 20, 300])
def test_it_is_the_sum_to_the_last_digit_in_any_order_and_parts(count: int, reach: int) -> None:
    rng = np.random.default_rng(count + reach)
    values = rng.standard_normal(count) * 10.0 ** rng.integers(-reach, reach + 1, count)
    total = exact_sum.of(values)
    assert exact_sum.to_float(total) == math.fsum(values)
    mixed = values[rng.permutation(count)]
    for part in (0, count // 3, count):
        assert exact_sum.of(mixed[:part]) + exact_sum.of(mixed[part:]) == total


def test_the_smallest_and_the_largest_numbers() -> None:
    assert exact_sum.to_float(exact_sum.of(np.array([5e-324]))) == 5e-324
    assert exact_sum.to_float(exact_sum.of(np.array([1.7e308, 1.7e308]))) == math.inf
    assert exact_sum.to_float(exact_sum.of(np.array([1.7e308, 1.0, -1.7e308]))) == 1.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_has_none(bad: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        exact_sum.of(np.array([1.0, bad]))
