"""Learning rates are pure functions of the step."""

from __future__ import annotations

import pytest

from mxtrain import names
from mxtrain.train import schedules


def rates(name: str, warmup: int, steps: int) -> list[float]:
    schedule = schedules.by_name(name)
    return [schedules.learning_rate(schedule, step, 1.0, warmup, steps) for step in range(steps)]


def test_every_name_has_its_function() -> None:
    assert set(schedules.BY_NAME) == set(names.SCHEDULES)


@pytest.mark.parametrize("name", names.SCHEDULES)
def test_rates_climb_and_then_never_rise(name: str) -> None:
    found = rates(name, warmup=10, steps=100)
    assert found[:11] == sorted(found[:11]) and found[0] == pytest.approx(1 / 11)
    assert found[10] == 1.0
    assert found[10:] == sorted(found[10:], reverse=True)
    assert min(found) >= 0


def test_known_values() -> None:
    assert rates("cosine", 0, 4) == pytest.approx([1.0, 0.8535534, 0.5, 0.1464466])
    assert rates("linear", 0, 4) == pytest.approx([1.0, 0.75, 0.5, 0.25])
    assert rates("poly", 0, 4) == pytest.approx([1.0, 0.5625, 0.25, 0.0625])
    assert rates("step", 0, 6) == pytest.approx([1.0, 1.0, 0.1, 0.1, 0.01, 0.01])
    assert rates("constant", 0, 3) == [1.0, 1.0, 1.0]


def test_a_path_stands_in_for_a_name() -> None:
    schedule = schedules.by_name("math:sqrt")
    assert schedules.learning_rate(schedule, 25, 2.0, 0, 100) == 1.0
