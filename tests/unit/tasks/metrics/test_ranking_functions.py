"""Metrics of the candidates of each user are scikit-learn's numbers, in whatever order the candidates come."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest

from mxtrain.config.components import metrics
from mxtrain.config.components.component import load
from mxtrain.core.errors import DataError, UsageError
from mxtrain.tasks.metrics.metric_selection import Named
from tests.support.losses.metric_numbers import of_micro_batches
from tests.support.reference_metrics import sklearn

USERS = np.array([-(1 << 63), -1, 0, 7, (1 << 62) + 1, (1 << 62) + 2, (1 << 63) - 1])


def number(
    name: str, k: int, scores: Any, targets: Any, users: Any, cuts: tuple[int, ...] = (), kind: str = "labels"
) -> float:
    formula = load(metrics.METRICS[name].factories[kind])
    formula = formula._replace(number=functools.partial(formula.number, k=k))
    metric = Named(
        (name,), formula, lambda output, arrays: (output, arrays["targets"]), lambda arrays: arrays["users"]
    )
    return of_micro_batches(metric, scores, {"targets": targets, "users": users}, cuts)


def samples(seed: int, num_scores: int, num_gains: int = 2) -> tuple[Any, Any, Any]:
    """Candidates of users whose ids differ in their last bits, with ties where there are few scores."""
    rng = np.random.default_rng(seed)
    users = rng.choice(USERS, 300)
    scores = rng.integers(0, num_scores, (300, 1)).astype(np.float32)
    gains = np.maximum(rng.integers(-2, num_gains, (300, 1)), 0).astype(np.float32)
    gains[users == 7] = 0  # who does not count
    return scores, gains, users


def of_users(of_one: Any, scores: Any, gains: Any, users: Any) -> float:
    each = [of_one(gains[users == user, 0], scores[users == user, 0]) for user in USERS if user != 7]
    return float(np.mean(each))


@pytest.mark.parametrize("num_scores", [3, 40, 1 << 20])
@pytest.mark.parametrize(("kind", "num_gains"), [("labels", 2), ("numbers", 5)])
@pytest.mark.parametrize("k", [1, 3, 10, 1000])
def test_ndcg_is_scikit_learns(k: int, kind: str, num_gains: int, num_scores: int) -> None:
    scores, gains, users = samples(k, num_scores, num_gains)

    def of_one(gains: Any, scores: Any) -> float:
        return float(sklearn().ndcg_score([gains], [scores], k=k))

    expected = of_users(of_one, scores, gains, users)
    assert number("ndcg", k, scores, gains, users, kind=kind) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("k", [1, 3, 1000])
def test_recall_is_scikit_learns_where_nothing_is_tied(k: int) -> None:
    _, gains, users = samples(k, 2)
    scores = np.random.default_rng(k).permutation(len(gains)).reshape(-1, 1)

    def of_one(gains: Any, scores: Any) -> float:
        return float(sklearn().recall_score(gains, np.argsort(np.argsort(-scores)) < k))

    assert number("recall_at", k, scores, gains, users) == pytest.approx(
        of_users(of_one, scores, gains, users), rel=1e-12
    )


@pytest.mark.parametrize("name", ["recall_at", "ndcg"])
def test_ties_are_the_mean_over_all_orders(name: str) -> None:
    scores, gains = np.array([2.0, 1, 1, 1, 0]), np.array([0.0, 1, 0, 1, 1])
    orders = [[0, *middle, 4] for middle in itertools.permutations((1, 2, 3))]
    untied = [number(name, 3, -np.argsort(order).astype(float), gains, np.zeros(5, int)) for order in orders]
    assert number(name, 3, scores, gains, np.zeros(5, int)) == pytest.approx(np.mean(untied), rel=1e-12)


@pytest.mark.parametrize(("name", "kind"), [("ndcg", "labels"), ("ndcg", "numbers"), ("recall_at", "labels")])
def test_no_order_and_no_micro_batches_change_a_bit(name: str, kind: str) -> None:
    scores, gains, users = samples(9, 12, 5)
    whole = number(name, 5, scores, gains, users, kind=kind)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(scores))
        cut = number(name, 5, scores[order], gains[order], users[order], (0, 1, 1, 50, 299), kind)
        assert cut == whole


def test_candidates_that_are_not_known_do_not_count() -> None:
    scores, gains, users = samples(1, 40)
    more = np.concatenate([gains, np.full_like(gains, -1)])
    known = number("ndcg", 3, scores, gains, users)
    assert number("ndcg", 3, np.concatenate([scores, scores + 1]), more, np.tile(users, 2)) == known


@pytest.mark.parametrize("name", ["recall_at", "ndcg"])
def test_nobody_has_a_gain(name: str) -> None:
    assert math.isnan(number(name, 3, np.arange(4.0), np.zeros(4), np.arange(4)))
    assert math.isnan(number(name, 3, np.zeros(0), np.zeros(0), np.zeros(0, int)))
    assert number(name, 1, np.zeros(1), np.ones(1), np.zeros(1, int)) == 1.0


def test_what_is_no_ranking_is_refused() -> None:
    users = np.arange(4)
    with pytest.raises(UsageError, match="takes one score and one target of each sample, and gets 2 labels"):
        number("ndcg", 3, np.zeros(4), np.zeros((4, 2)), users)
    with pytest.raises(DataError, match="--metric ndcg: takes the targets as gains, and one is -2; none may"):
        number("ndcg", 3, np.zeros(4), np.array([0, 1, -2.0, 3]), users, kind="numbers")


@pytest.mark.parametrize("groups", [np.zeros(4), np.zeros((4, 2), int), np.zeros(3, int)])
def test_groups_that_do_not_fit_the_samples_are_refused(groups: Any) -> None:
    formula = load(metrics.METRICS["ndcg"].factories["labels"])
    metric = Named(("ndcg",), formula, lambda *_: (np.zeros(4), np.ones(4)), lambda _: groups)
    with pytest.raises(UsageError, match="--metric ndcg: `groups` of the task has to give 4 whole numbers"):
        metric.state(None, {})
