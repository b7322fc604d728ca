"""Several labels a picture, and class weights: losses and weights against their formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.core.errors import UsageError
from mxtrain.data.fields import BadSample
from mxtrain.data.interfaces import Record
from mxtrain.inference import predictor
from mxtrain.models import losses
from mxtrain.runtime import mx
from mxtrain.tasks.classes import ClassificationForward
from mxtrain.tasks.classification import Classification
from mxtrain.tasks.multilabel import Multilabel
from mxtrain.tasks.targets.several_labels import LabelsForward

NUM, CLASSES = 6, 3
WEIGHTS = [0.5, 2.0, 3.0]


def run_of(*flags: str) -> config.Run:
    return config.parse(["--train", "t.rec", "--image-size", "4", *flags])


def net(data: Any) -> Any:
    """Answers of all sizes, some of them 0."""
    return data.reshape((len(data), -1))[:, :CLASSES] * 4


def cross_entropy(x: float, target: float) -> float:
    return np.logaddexp(0, -x) * target + np.logaddexp(0, x) * (1 - target)


@pytest.fixture
def arrays() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    data = rng.normal(size=(NUM, 3, 4, 4)).astype(np.float32)
    data[0, 0, 0, :2] = 0
    label = rng.choice([-1.0, 0.0, 1.0], (NUM, CLASSES))
    other = np.roll(label, -1, axis=0)
    share = rng.uniform(0, 0.5, (NUM, 1))
    named = {"data": data, "label": label, "other_label": other, "other_fraction": share}
    return {name: mx.nd.array(array) for name, array in named.items()}


def outcome(forward: Any, given: dict[str, Any], *names: str) -> tuple[float, float]:
    found = forward(net, {name: given[name] for name in ("data", *names)})
    weight = found.weight
    return float(found.losses.sum().asscalar()), float(
        weight if isinstance(weight, int) else weight.asscalar()
    )


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("is_mixed", [False, True])
def test_labels_that_are_known_count_and_a_yes_as_often_as_its_class_says(
    arrays: dict[str, Any], weights: list[float] | None, is_mixed: bool
) -> None:
    task = Multilabel(
        run_of("--task", "multilabel"), {"class_names": ["a", "b", "c"], "class_weights": weights}
    )
    mixed = ("other_label", "other_fraction") if is_mixed else ()
    total, weight = outcome(task.training_forward(None), arrays, "label", *mixed)
    output, label = net(arrays["data"]).asnumpy(), arrays["label"].asnumpy()
    parts = [
        (label, 1 - arrays["other_fraction"].asnumpy()),
        (arrays["other_label"].asnumpy(), arrays["other_fraction"].asnumpy()),
    ]
    expected = expected_weight = 0.0
    for labels, shares in parts if is_mixed else [(label, np.ones((NUM, 1)))]:
        for i in range(NUM):
            for k in range(CLASSES):
                if labels[i, k] >= 0:
                    counts = (weights[k] if weights and labels[i, k] else 1) * shares[i, 0]
                    expected += counts * cross_entropy(output[i, k], labels[i, k])
                    expected_weight += counts
    assert (total, weight) == (pytest.approx(expected, rel=1e-5), pytest.approx(expected_weight, rel=1e-6))


def test_an_evaluation_counts_every_known_label_once(arrays: dict[str, Any]) -> None:
    task = Multilabel(
        run_of("--task", "multilabel", "--label-smoothing", "0.2"),
        {"class_names": ["a", "b", "c"], "class_weights": WEIGHTS},
    )
    known = float((arrays["label"].asnumpy() >= 0).sum())
    found = outcome(task.plain_forward(), arrays, "label")
    plain = LabelsForward(losses.label_cross_entropy)
    assert found == outcome(plain, arrays, "label") and found[1] == known
    right, count = plain(net, arrays).means["label_accuracy"]
    output, label = net(arrays["data"]).asnumpy(), arrays["label"].asnumpy()
    assert float(count.asscalar()) == known
    assert float(right.asscalar()) == ((output > 0) == (label == 1))[label >= 0].sum()


@pytest.mark.parametrize("is_mixed", [False, True])
def test_a_sample_counts_as_often_as_its_class_says(arrays: dict[str, Any], is_mixed: bool) -> None:
    rng = np.random.default_rng(1)
    label, other = rng.integers(0, CLASSES, (2, NUM))
    share = rng.uniform(0, 0.5, NUM) * is_mixed
    arrays = {
        "data": arrays["data"],
        "label": mx.nd.array(label),
        "other_label": mx.nd.array(other),
        "other_fraction": mx.nd.array(share),
    }
    description = {"class_names": ["a", "b", "c"], "class_weights": WEIGHTS}
    forward = Classification(run_of(), description).training_forward(None)
    total, weight = outcome(
        forward, arrays, "label", *(("other_label", "other_fraction") if is_mixed else ())
    )
    output = net(arrays["data"]).asnumpy().astype(np.float64)
    log = output - np.logaddexp.reduce(output, axis=1, keepdims=True)
    own, others = np.take(WEIGHTS, label) * (1 - share), np.take(WEIGHTS, other) * share
    rows = np.arange(NUM)
    expected = -(own * log[rows, label] + others * log[rows, other]).sum()
    assert (total, weight) == (
        pytest.approx(expected, rel=1e-5),
        pytest.approx((own + others).sum(), rel=1e-6),
    )
    unweighted = Classification(run_of(), {"class_names": ["a", "b", "c"]}).training_forward(None)
    assert outcome(unweighted, arrays, "label")[1] == NUM


@pytest.mark.parametrize("kind", [Classification, Multilabel])
def test_the_teachers_part_counts_likewise(arrays: dict[str, Any], kind: type) -> None:
    task_name = kind.__name__.lower()
    run = run_of(
        "--task", task_name, "--teacher", "runs/a", "--distill-weight", "1", "--distill-temperature", "2"
    )
    label = mx.nd.array([0, 1, 2, 0, 1, 2]) if kind is Classification else arrays["label"]
    arrays = {**arrays, "label": label}
    taught = lambda data: net(data) * 0.5  # noqa: E731
    totals = []
    for weights in (None, [3.0] * CLASSES):
        task = kind(run, {"class_names": ["a", "b", "c"], "class_weights": weights})
        totals.append(outcome(task.training_forward(taught), arrays, "label"))
    (total, weight), (weighed, sum_of_weights) = totals
    if kind is Classification:
        assert (weighed, sum_of_weights) == (pytest.approx(3 * total, rel=1e-5), 3 * weight)
    same = task.training_forward(net)
    assert outcome(same, arrays, "label")[0] == pytest.approx(0, abs=1e-4)
    assert total > 0.1


def test_the_losses_of_labels_and_their_gradients_are_exact_at_any_answer() -> None:
    values = np.array([-200, -30, -1, 0, 1e-3, 2, 30, 200], np.float32)
    for target in (0.0, 1.0):
        x = mx.nd.array(values)
        x.attach_grad()
        with mx.autograd.record():
            found = losses.label_cross_entropy(x, mx.nd.full(x.shape, target))
        found.backward()
        expected = cross_entropy(values.astype(np.float64), target)
        np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-5, atol=1e-12)
        slope = 1 / (1 + np.exp(-values.astype(np.float64))) - target
        np.testing.assert_allclose(x.grad.asnumpy(), slope, rtol=1e-5, atol=1e-7)


def test_focal_and_smoothed_losses_of_labels() -> None:
    x, label = mx.nd.array([[-2.0, 0.5]]), mx.nd.array([[1.0, 0.0]])
    plain = losses.label_cross_entropy(x, label).asnumpy()
    focal = losses.build_of_labels("focal:gamma=2", 0.0, 2)(x, label).asnumpy()
    np.testing.assert_allclose(focal, (1 - np.exp(-plain)) ** 2 * plain, rtol=1e-5)
    smoothed = losses.build_of_labels("binary_cross_entropy", 0.2, 2)(x, label).asnumpy()
    np.testing.assert_allclose(smoothed, [[cross_entropy(-2, 0.9), cross_entropy(0.5, 0.1)]], rtol=1e-5)
    taught = losses.label_distillation(x, x * 2, 4.0).asnumpy()
    assert (taught > 0).all() and np.allclose(losses.label_distillation(x, x, 4.0).asnumpy(), 0)


def test_plain_classification_has_no_weights_to_compute() -> None:
    assert ClassificationForward(losses.cross_entropy).counts(mx.nd.zeros(2)) is None


def test_predictions_name_what_is_rather_there_than_not() -> None:
    task = Multilabel(run_of("--task", "multilabel"), {"class_names": ["a", "b", "c"]})
    output = task.answer(net, {"data": mx.nd.array(np.resize([0.25, -1.0, 2.0], (1, 3, 1, 1)))}).asnumpy()[0]
    np.testing.assert_allclose(output, 1 / (1 + np.exp([-1.0, 4.0, -8.0])), rtol=1e-5)
    shown = task.shown(output)
    assert shown["present"] == ["c", "a"] and list(shown["probabilities"]) == ["a", "b", "c"]
    assert task.in_words(shown) == "c 1.000, a 0.731"
    assert task.in_words(task.shown(np.zeros(3))) == "none of the classes"


def test_rows_of_a_stream_are_checked_as_they_come() -> None:
    run = run_of("--task", "multilabel", "--epoch-steps", "3", "--augment", "none")
    task = Multilabel(run, {"class_names": ["a", "b", "c"]})
    rows = {"data": np.zeros((3, 4, 4), np.float32), "label": np.zeros(3, np.float32)}
    pixels = np.zeros((4, 4, 3), np.uint8)
    task.reader(True)(Record(0, np.array([1.0, 0, -1]), pixels), np.random.default_rng(0), rows)
    assert rows["label"].tolist() == [1, 0, -1]
    for wrong in ([1.0, 0, 2], [1.0, np.nan, 0], [1.0, 0]):
        with pytest.raises(BadSample):
            task.reader(True)(Record(0, np.array(wrong), pixels), np.random.default_rng(0), rows)


def test_the_threshold_of_predictions_is_the_users() -> None:
    shown = Multilabel(run_of(), {"class_names": ["a", "b", "c"]}).shown(np.array([0.4, 0.9, 0.1]))
    assert shown["present"] == ["b"]
    assert predictor.cut(shown, 1, 0.3)["present"] == ["b", "a"]
    assert predictor.cut(shown, 1, 0.95)["present"] == []
    with pytest.raises(UsageError, match=r"--threshold 1\.5: give a probability from 0 to 1"):
        predictor.PredictOptions(threshold=1.5).check()


@pytest.mark.parametrize("name", ["binary_cross_entropy", "focal", "focal:gamma=1.5"])
@pytest.mark.parametrize("is_mixed", [False, True])
def test_unknown_labels_leave_losses_and_gradients_finite(
    name: str, is_mixed: bool, arrays: dict[str, Any]
) -> None:
    forward = LabelsForward(losses.build_of_labels(name, 0.0, CLASSES))
    names = ("data", "label", *(("other_label", "other_fraction") if is_mixed else ()))
    arrays["data"].attach_grad()
    with mx.autograd.record():
        found = forward(net, {each: arrays[each] for each in names})
    found.losses.backward()
    gradient = arrays["data"].grad.asnumpy().reshape(NUM, -1)[:, :CLASSES]
    assert np.isfinite(found.losses.asnumpy()).all() and np.isfinite(gradient).all() and gradient.any()
    unknown = arrays["label"].asnumpy() < 0
    if is_mixed:
        unknown &= arrays["other_label"].asnumpy() < 0
    assert not found.losses.asnumpy()[unknown].any() and not gradient[unknown].any()
