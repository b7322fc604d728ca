"""Metrics by name are scikit-learn's numbers, however the samples are cut into micro-batches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mxtrain.config.components import metrics
from mxtrain.config.components.component import load
from mxtrain.tasks.metrics.metric_selection import Named
from tests.support.losses.metric_numbers import of_micro_batches
from tests.support.reference_metrics import sklearn


def found(
    kind: str, name: str, predictions: Any, targets: Any, cuts: tuple[int, ...] = (), **numbers: int
) -> float:
    """The number over samples that are cut there into micro-batches."""
    formula = load(metrics.METRICS[name].factories[kind])
    if numbers:
        kept = formula.kept
        formula = formula._replace(kept=lambda *both: kept(*both, **numbers))
    metric = Named((name,), formula, lambda output, arrays: (output, arrays["targets"]))
    return of_micro_batches(metric, predictions, {"targets": targets}, cuts)


def softmax(scores: Any) -> Any:
    powers = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def of_classes(name: str, scores: Any, targets: Any) -> float:
    """scikit-learn's number."""
    taken, shares, binary = scores.argmax(axis=1), softmax(scores), scores.shape[1] == 2
    over = {"average": "binary" if binary else "macro", "zero_division": 0}
    one_hot = targets[:, None] == np.arange(scores.shape[1])
    numbers = {
        "accuracy": lambda: sklearn().accuracy_score(targets, taken),
        "topk": lambda: sklearn().top_k_accuracy_score(
            targets, scores, k=2, labels=np.arange(scores.shape[1])
        ),
        "balanced_accuracy": lambda: sklearn().balanced_accuracy_score(targets, taken),
        "macro_f1": lambda: sklearn().f1_score(targets, taken, average="macro", zero_division=0),
        "precision": lambda: sklearn().precision_score(targets, taken, **over),
        "recall": lambda: sklearn().recall_score(targets, taken, **over),
        "auc": lambda: sklearn().roc_auc_score(
            targets, shares[:, 1] if binary else shares, multi_class="ovr"
        ),
        "log_loss": lambda: sklearn().log_loss(targets, shares),
        "average_precision": lambda: sklearn().average_precision_score(
            targets if binary else one_hot, shares[:, 1] if binary else shares
        ),
    }
    return float(numbers[name]())


@pytest.mark.parametrize("num_classes", [2, 3, 7])
@pytest.mark.parametrize("name", metrics.of_target("classes"))
def test_of_classes(name: str, num_classes: int) -> None:
    if name == "topk" and num_classes == 2:
        return  # scikit-learn takes one column of scores there
    rng = np.random.default_rng(num_classes)
    targets = np.append(np.arange(num_classes), rng.integers(0, num_classes, 60)).astype(np.float32)
    scores = rng.integers(-4, 4, (len(targets), num_classes)).astype(np.float32) / 2  # with ties
    scores += rng.random(scores.shape).astype(np.float32) if name == "topk" else 0
    scores[np.arange(len(targets)), targets.astype(int)] += 1
    numbers = {"k": 2} if name == "topk" else {}
    whole = found("classes", name, scores, targets, **numbers)
    assert whole == pytest.approx(of_classes(name, scores, targets), abs=1e-12)
    assert found("classes", name, scores, targets, (5, 5, 30), **numbers) == whole


@pytest.mark.parametrize("name", ["macro_f1", "precision", "recall", "balanced_accuracy", "accuracy"])
def test_classes_that_never_come_or_are_never_named(name: str) -> None:
    targets = np.array([0, 0, 2, 2, 2], np.float32)
    scores = np.eye(5, dtype=np.float32)[[0, 3, 2, 0, 2]]
    assert found("classes", name, scores, targets) == pytest.approx(of_classes(name, scores, targets))


@pytest.mark.parametrize("target", [0.0, 1.0])
def test_one_class_alone(target: float) -> None:
    targets, scores = np.full(4, target, np.float32), np.array([[0, 1], [1, 0], [0, 2], [0, 3]], np.float32)
    assert math.isnan(found("classes", "auc", scores, targets))
    for name in ("precision", "recall", "macro_f1", "balanced_accuracy", "accuracy"):
        assert found("classes", name, scores, targets) == pytest.approx(of_classes(name, scores, targets)), (
            name
        )
    average = found("classes", "average_precision", scores, targets)
    assert average == 1.0 if target else math.isnan(average)  # scikit-learn warns, and says 0


def test_classes_without_a_positive_do_not_count() -> None:
    targets, scores = np.array([0, 1, 1, 0], np.float32), np.random.default_rng(0).random((4, 3), np.float32)
    shares = softmax(scores)
    expected = np.mean([sklearn().roc_auc_score(targets == k, shares[:, k]) for k in (0, 1)])
    assert found("classes", "auc", scores, targets) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for name, metric in metrics.METRICS.items()
        for kind in metric.factories
        if not metric.is_by_user
    ],
)
def test_micro_batches_of_which_nothing_counts(kind: str, name: str) -> None:
    shapes = {
        "classes": ((0, 3), (0,)),
        "labels": ((0, 3), (0, 3)),
        "numbers": ((0, 2), (0, 2)),
        "likelihoods": ((0,), (0,)),
    }
    predictions, targets = (np.zeros(shape, np.float32) for shape in shapes[kind])
    numbers = {"k": 2} if name == "topk" else {}
    assert math.isnan(found(kind, name, predictions, targets, **numbers))
    more = [
        np.concatenate([each, np.ones((4, *each.shape[1:]), np.float32)]) for each in (predictions, targets)
    ]
    more[0][:2] -= 2
    assert found(kind, name, *more, (0, 2), **numbers) == pytest.approx(
        found(kind, name, *more, **numbers), nan_ok=True
    )


def test_of_labels_of_which_some_are_not_known() -> None:
    rng = np.random.default_rng(0)
    scores, labels = (
        rng.integers(0, 9, (40, 3)).astype(np.float32),
        rng.integers(-1, 2, (40, 3)).astype(np.float32),
    )
    labels[:, 2] = 0
    each = [
        sklearn().roc_auc_score(labels[known, k], scores[known, k])
        for k in (0, 1)
        for known in [labels[:, k] >= 0]
    ]
    assert found("labels", "auc", scores, labels, (7,)) == pytest.approx(np.mean(each))


@pytest.mark.parametrize("shape", [(2000,), (2000, 1), (500, 3)])
@pytest.mark.parametrize("name", ["log_loss", "calibration"])
def test_how_far_probabilities_of_labels_can_be_believed(name: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    scores = (rng.normal(size=shape) * 4).astype(np.float32)
    labels = rng.integers(-1, 2, shape).astype(np.float32)
    shares, known = 1 / (1 + np.exp(-scores.astype(np.float64))), labels >= 0
    expected = {
        "log_loss": sklearn().log_loss(labels[known], shares[known]),
        "calibration": shares[known].mean() / labels[known].mean(dtype="float64"),
    }[name]
    whole = found("labels", name, scores, labels)
    assert whole == pytest.approx(expected, rel=1e-9)
    order = rng.permutation(len(scores))
    assert found("labels", name, scores[order], labels[order], (1, 3, 200, 201)) == whole


def test_log_loss_of_labels_of_extreme_scores() -> None:
    scores, labels = np.array([[1e4], [-1e4], [0.0]]), np.array([[1], [1], [0]], np.float32)
    assert found("labels", "log_loss", scores, labels) == pytest.approx((1e4 + math.log(2)) / 3)
    assert found("labels", "log_loss", scores, np.array([[0], [-1], [-1]])) == 1e4
    assert found("labels", "calibration", scores, labels) == pytest.approx(1.5 / 2)
    assert math.isnan(found("labels", "calibration", scores, np.zeros((3, 1))))


def test_auc_of_many_samples_is_exact() -> None:
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 1000, (300_000, 1)).astype(np.float32)
    labels = (rng.random((300_000, 1)) < 0.03).astype(np.float32)
    counts = [np.bincount(scores[labels == label].astype(int), minlength=1000) for label in (0, 1)]
    below = np.cumsum(counts[0]) - counts[0]
    doubled = sum(int(yes) * (2 * int(no) + int(tied)) for yes, no, tied in zip(counts[1], below, counts[0]))
    expected = doubled / (2 * int(counts[0].sum()) * int(counts[1].sum()))
    assert found("labels", "auc", scores, labels) == expected
    order = rng.permutation(len(scores))
    assert found("labels", "auc", scores[order], labels[order], (7, 100_000)) == expected


@pytest.mark.parametrize("shape", [(50,), (50, 1), (50, 3)])
@pytest.mark.parametrize("name", ["mae", "rmse", "r2"])
def test_of_numbers(name: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    targets = (rng.normal(size=shape) * 10 + 1e4).astype(np.float32)
    predictions = (targets + rng.normal(size=shape) * 3).astype(np.float32)
    both = targets.astype(np.float64), predictions.astype(np.float64)
    root = np.sqrt(sklearn().mean_squared_error(*both))
    expected = {"mae": sklearn().mean_absolute_error(*both), "rmse": root, "r2": sklearn().r2_score(*both)}[
        name
    ]
    assert found("numbers", name, predictions, targets, (3, 20, 20)) == pytest.approx(expected, rel=1e-12)


def test_r2_of_a_constant_and_of_too_few() -> None:
    constant, near = np.full(5, 3.0, np.float32), np.full(5, 3.5, np.float32)
    assert found("numbers", "r2", constant, constant) == sklearn().r2_score(constant, constant) == 1
    assert found("numbers", "r2", near, constant) == sklearn().r2_score(constant, near) == 0
    assert math.isnan(found("numbers", "r2", constant[:1], constant[:1]))


def test_perplexity_is_the_inverse_of_the_mean_probability() -> None:
    probabilities = np.array([[0.5, 0.25], [0.125, 1.0]])
    weights = np.array([[1.0, 1.0], [2.0, 0.0]])
    expected = math.exp(-(math.log(0.5) + math.log(0.25) + 2 * math.log(0.125)) / 4)
    assert found("likelihoods", "perplexity", np.log(probabilities), weights, (1,)) == pytest.approx(expected)
    assert found("likelihoods", "perplexity", np.full(2, -1e4), np.ones(2)) == math.inf
