"""Average precision and F1 of several labels a sample, against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mxtrain.tasks.metrics.multilabel_metrics import F1, AveragePrecision, average_precision


class Output:
    """What a net has answered, as the metrics take it from MXNet."""

    def __init__(self, values):
        self._values = np.asarray(values, np.float32)

    def asnumpy(self):
        return self._values


def by_thresholds(scores, labels):
    """The definition: the sum over all thresholds, from the highest, of precision times what recall has gained."""
    scores, labels = scores[labels >= 0], labels[labels >= 0]
    total, recall = 0.0, 0.0
    for threshold in sorted(set(scores.tolist()), reverse=True):
        chosen = labels[scores >= threshold]
        now = chosen.sum() / labels.sum()
        total, recall = total + chosen.mean() * (now - recall), now
    return total


@pytest.mark.parametrize("seed", range(5))
def test_average_precision_is_the_area_over_all_thresholds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.choice([-1.0, 0.0, 1.0], 40)
    scores = rng.integers(0, 12, 40) / 4 + labels  # many are equal
    assert average_precision(scores, labels) == pytest.approx(by_thresholds(scores, labels), abs=1e-12)
    order = rng.permutation(40)
    assert average_precision(scores[order], labels[order]) == average_precision(scores, labels)


def test_it_is_1_for_a_perfect_order_and_undefined_without_any() -> None:
    assert average_precision(np.array([3.0, 2, 1]), np.array([1.0, 1, 0])) == 1
    assert math.isnan(average_precision(np.array([3.0, 2]), np.array([0.0, -1])))


def judged(metric, output, label, cuts=(0, 2, 3, 6)):
    pairs = list(zip(cuts, cuts[1:]))
    states = [metric.state(Output(output[a:b]), {"label": label[a:b]}) for a, b in pairs]
    return metric.finish(states)


def test_classes_count_alike_and_those_that_nobody_has_do_not() -> None:
    label = np.array([[1, 0, 0], [0, 0, -1], [1, 1, 0], [0, 1, 0], [0, 0, 0], [-1, 1, 0]], np.float32)
    output = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    expected = np.mean([by_thresholds(output[:, k], label[:, k]) for k in (0, 1)])
    found = judged(AveragePrecision(3), output, label)
    assert found == {"mean_average_precision": pytest.approx(expected, abs=1e-6)}
    assert found == judged(AveragePrecision(3), output, label, cuts=(0, 6))
    assert math.isnan(judged(AveragePrecision(3), output, np.zeros_like(label))["mean_average_precision"])


def test_f1_counts_decisions_and_leaves_out_what_is_unknown() -> None:
    label = np.array([[1, 0, 0], [1, 1, -1], [0, 1, 0], [1, 0, 0], [0, 0, 0], [-1, 1, 0]], np.float32)
    claimed = np.array([[1, 0, 0], [0, 1, 1], [1, 1, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]], bool)
    # class 0: 2 found, 1 missed, 1 wrong; class 1: 2, 1, 1; class 2: nothing to find and nothing claimed
    found = judged(F1(3), np.where(claimed, 1.0, -1.0), label)
    assert found["micro_f1"] == pytest.approx(2 * 4 / (2 * 4 + 2 + 2))
    assert found["macro_f1"] == pytest.approx(2 / 3)
    nothing = judged(F1(3), -np.ones((6, 3)), np.zeros((6, 3), np.float32))
    assert math.isnan(nothing["micro_f1"]) and math.isnan(nothing["macro_f1"])
