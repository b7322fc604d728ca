"""The record `classes`: scikit-learn's numbers, the same however samples are cut, and what has no meaning is null."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.tasks import registry
from mxtrain.tasks.metrics import metric_selection
from mxtrain.tasks.metrics.class_report import MOST_PAIRS, NUM_BINS, ClassReport
from tests.support.reference_metrics import sklearn

NOT_DEFINED = float("nan")


class Output:
    def __init__(self, values: Any):
        self.asnumpy = lambda: values


REPORT = ClassReport(lambda output, arrays: (output.asnumpy(), arrays["label"]))
OF_LABELS = ClassReport(REPORT.predictions_and_targets, of_labels=True)


def made(num_samples: int, num_classes: int, seed: int = 0) -> tuple[Any, Any]:
    """Scores, often right, and labels; the last class has no sample and is never answered."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, max(1, num_classes - 1), num_samples)
    scores = rng.normal(0, 1, (num_samples, num_classes))
    scores[np.arange(num_samples), labels] += 2
    scores[:, num_classes - 1] -= 100 * (num_classes > 1)
    return scores.astype(np.float32), labels.astype(np.float32)


def report(scores: Any, labels: Any, micro_batch: int = 32, of: ClassReport = REPORT) -> dict[str, Any]:
    cuts = range(0, len(labels), micro_batch)
    parts = [slice(start, start + micro_batch) for start in cuts]
    found = of.record([of.state(Output(scores[part]), {"label": labels[part]}) for part in parts])
    assert found is not None
    return found


def shares(numbers: Any) -> list[float]:
    return [NOT_DEFINED if each is None else each for each in numbers]


def calibration(confidence: Any, is_right: Any) -> float:
    """As Guo et al. (2017) define it."""
    total = 0.0
    for low in range(NUM_BINS):
        chosen = (confidence > low / NUM_BINS) & (confidence <= (low + 1) / NUM_BINS)
        if chosen.any():
            total += abs(confidence[chosen].mean() - is_right[chosen].mean()) * chosen.mean()
    return total


@pytest.mark.parametrize(("num_samples", "num_classes"), [(500, 7), (300, 2), (64, 100), (5, 1)])
def test_numbers_are_those_of_scikit_learn(num_samples: int, num_classes: int) -> None:
    scores, labels = made(num_samples, num_classes)
    found, answered = report(scores, labels), scores.argmax(axis=1)
    classes = np.arange(num_classes)
    precision, recall, _, support = sklearn().precision_recall_fscore_support(
        labels, answered, labels=classes, zero_division=NOT_DEFINED
    )
    assert found["support"] == support.tolist()
    np.testing.assert_allclose(shares(found["precision"]), precision, rtol=1e-12)
    np.testing.assert_allclose(shares(found["recall"]), recall, rtol=1e-12)
    expected = sklearn().confusion_matrix(labels, answered, labels=classes)
    np.fill_diagonal(expected, 0)
    matrix = np.zeros_like(expected)
    for target, taken_for, count in found["confusion"]:
        matrix[target, taken_for] = count
    assert (matrix == expected).all() and len(found["confusion"]) == (expected > 0).sum()
    counts = [count for *_, count in found["confusion"]]
    assert counts == sorted(counts, reverse=True)


def test_calibration_is_that_of_the_definition() -> None:
    scores, labels = made(1000, 5)
    found = report(scores, labels)
    powers = np.exp(scores.astype(np.float64))
    confidence = powers.max(axis=1) / powers.sum(axis=1)
    is_right = scores.argmax(axis=1) == labels
    assert found["ece"] == pytest.approx(calibration(confidence, is_right), abs=1e-6)
    assert sum(count for *_, count in found["bins"]) == 1000 and len(found["bins"]) > 8
    confidences = [confidence for confidence, *_ in found["bins"]]
    assert confidences == sorted(confidences)
    total = sum(right * count for _, right, count in found["bins"])
    assert total == pytest.approx(is_right.sum(), rel=1e-12)


def test_several_labels_are_so_many_decisions() -> None:
    rng = np.random.default_rng(1)
    scores = rng.normal(0, 2, (200, 6)).astype(np.float32)
    labels = ((scores + rng.normal(0, 2, scores.shape)) > 0).astype(np.float32)
    labels[:, 4], labels[:, 5], scores[:, 5] = 0, 0, -1
    labels[rng.random(labels.shape) < 0.2] = -1  # unknown
    found = report(scores, labels, of=OF_LABELS)
    assert "confusion" not in found
    for label in range(6):
        known = labels[:, label] >= 0
        precision, recall, _, support = sklearn().precision_recall_fscore_support(
            *(labels[known, label], scores[known, label] > 0),
            labels=[1],
            zero_division=NOT_DEFINED,
        )
        assert found["support"][label] == support[0]
        for numbers, expected in ((found["precision"], precision), (found["recall"], recall)):
            np.testing.assert_allclose(shares([numbers[label]]), expected, rtol=1e-12)
    of_yes = 1 / (1 + np.exp(-scores[labels >= 0].astype(np.float64)))
    is_right = (scores > 0)[labels >= 0] == labels[labels >= 0]
    assert found["ece"] == pytest.approx(calibration(np.maximum(of_yes, 1 - of_yes), is_right), abs=1e-6)


@pytest.mark.parametrize("of", [REPORT, OF_LABELS])
def test_micro_batches_of_any_size_give_the_same_bits(of: ClassReport) -> None:
    scores, labels = made(300, 6)
    if of.of_labels:
        labels = (np.random.default_rng(2).random(scores.shape) < 0.3).astype(np.float32)
    whole = report(scores, labels, 300, of)
    assert all(report(scores, labels, size, of) == whole for size in (1, 7, 32))


@pytest.mark.filterwarnings("error")
def test_answers_that_are_no_numbers_are_answers_of_no_confidence() -> None:
    scores, labels = made(40, 3)
    scores[3], scores[5] = np.nan, np.inf
    found = report(scores, labels)
    assert sum(found["support"]) == 40 and sum(count for *_, count in found["bins"]) == 38
    nothing = report(np.full_like(scores, np.nan), labels)
    assert nothing["bins"] == [] and np.isnan(nothing["ece"])


def test_a_task_that_judges_by_other_arrays_has_no_report() -> None:
    scores, labels = made(10, 3)
    states = [REPORT.state(Output(scores[:, None]), {"label": labels})]
    assert REPORT.judge(states) == ({}, None)


def test_the_report_has_a_number_that_may_be_the_score() -> None:
    run = config.parse(["--train", "t.rec", "--val", "v.rec", "--score", "ece"])
    task = registry.of_description(run, {"class_names": ["a", "b"]})
    assert metric_selection.of_task(task).score == ("ece", True)


def test_ten_thousand_classes_stay_small() -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 10_000, 20_000).astype(np.float32)
    scores = [rng.random((100, 10_000), np.float32) for _ in range(2)]
    states = [
        REPORT.state(Output(scores[part % 2]), {"label": labels[100 * part : 100 * part + 100]})
        for part in range(20)
    ]
    found = REPORT.record(states * 10)
    assert found is not None and len(found["confusion"]) <= MOST_PAIRS
    assert len(json.dumps(found)) < 1_000_000 and len(found["support"]) == 10_000
