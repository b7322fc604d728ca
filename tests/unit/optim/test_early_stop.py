"""The end of a run without better scores."""

from __future__ import annotations

import json
import math

import pytest

from mxtrain.optim import early_stop
from mxtrain.optim.early_stop import Best


def last_evaluation(scores: list[float], patience: int, stops: bool = False) -> int | None:
    """Return the evaluation at which a run ends; with stops, the best goes through a checkpoint's JSON after each."""
    best = None
    for number, score in enumerate(scores, start=1):
        best = early_stop.updated(best, score, step=10 * number)
        if stops:
            best = Best(*json.loads(json.dumps(best)))
        if early_stop.is_over(best, patience):
            return number
    return None


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize(
    ("scores", "patience", "expected"),
    [
        ([0.1, 0.2, 0.3, 0.4], 1, None),
        ([0.4, 0.3], 1, 2),
        ([0.4, 0.4], 1, 2),
        ([0.4, 0.3, 0.5, 0.1, 0.2, 0.3], 3, 6),
        ([0.4, 0.3, 0.3, 0.41, 0.2, 0.2], 3, None),
        ([0.4] * 20, 0, None),
    ],
)
def test_a_run_ends_after_as_many_evaluations_without_a_better_score(
    scores: list[float], patience: int, expected: int | None, stops: bool
) -> None:
    assert last_evaluation(scores, patience, stops) == expected


def test_a_run_does_not_end_before_its_first_evaluation() -> None:
    assert not early_stop.is_over(None, 1)


def test_the_best_score_is_kept_with_its_step() -> None:
    best = None
    for step, score in enumerate([0.1, 0.7, 0.3]):
        best = early_stop.updated(best, score, step)
    assert best == Best(0.7, step=1, evaluations_since=1)


def test_a_score_may_be_better_for_being_lower() -> None:
    best = None
    for step, score in enumerate([0.5, 0.6, 0.3, 0.3]):
        best = early_stop.updated(best, score, step, is_lower_better=True)
    assert best == Best(0.3, step=2, evaluations_since=1)


@pytest.mark.parametrize("is_lower_better", [False, True])
@pytest.mark.parametrize("none", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_not_finite_is_never_the_best(none: float, is_lower_better: bool) -> None:
    best = None
    for step, score in enumerate([none, 0.5, none]):
        best = early_stop.updated(best, score, step, is_lower_better)
    assert best is not None and (best.score, best.step) == (0.5, 1)
