"""Losses compared with NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain.core.errors import UsageError
from mxtrain.models import losses
from mxtrain.runtime import mx
from tests.support.losses.reference_losses import log_softmax

SAMPLES, CLASSES = 6, 5
RNG = np.random.default_rng(0)
OUTPUT = RNG.standard_normal((SAMPLES, CLASSES)) * 5
LABEL = RNG.integers(0, CLASSES, SAMPLES)


def smoothed(smoothing: float) -> np.ndarray:
    result: np.ndarray = (1 - smoothing) * np.eye(CLASSES)[LABEL] + smoothing / CLASSES
    return result


def cross_entropy(smoothing: float = 0.0) -> np.ndarray:
    result: np.ndarray = -(smoothed(smoothing) * log_softmax(OUTPUT)).sum(axis=1)
    return result


def focal(gamma: float) -> np.ndarray:
    probability = np.exp(log_softmax(OUTPUT))[np.arange(SAMPLES), LABEL]
    result: np.ndarray = -((1 - probability) ** gamma) * np.log(probability)
    return result


def binary_cross_entropy(smoothing: float = 0.0) -> np.ndarray:
    probability, target = 1 / (1 + np.exp(-OUTPUT)), smoothed(smoothing)
    result: np.ndarray = -(target * np.log(probability) + (1 - target) * np.log(1 - probability)).mean(axis=1)
    return result


def losses_and_gradient(text: str, smoothing: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    loss = losses.build(text, smoothing, CLASSES)
    output = mx.nd.array(OUTPUT)
    output.attach_grad()
    with mx.autograd.record():
        found = loss(output, mx.nd.array(LABEL))
    found.backward()
    assert found.shape == (SAMPLES,) and found.dtype == np.float32
    return found.asnumpy(), output.grad.asnumpy()


@pytest.mark.parametrize(
    ("text", "smoothing", "expected"),
    [
        ("cross_entropy", 0.0, cross_entropy()),
        ("cross_entropy", 0.1, cross_entropy(0.1)),
        ("focal", 0.0, focal(2.0)),
        ("focal:gamma=1.5", 0.0, focal(1.5)),
        ("binary_cross_entropy", 0.0, binary_cross_entropy()),
        ("binary_cross_entropy", 0.2, binary_cross_entropy(0.2)),
    ],
)
def test_losses_are_the_published_ones(text: str, smoothing: float, expected: np.ndarray) -> None:
    found, gradient = losses_and_gradient(text, smoothing)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert np.isfinite(gradient).all()


def test_the_gradient_of_smoothed_cross_entropy() -> None:
    _, gradient = losses_and_gradient("cross_entropy", 0.1)
    np.testing.assert_allclose(gradient, np.exp(log_softmax(OUTPUT)) - smoothed(0.1), atol=1e-5)


def slope(loss: Any, output: np.ndarray) -> np.ndarray:
    """Return the gradient of the sum of a loss, in float64 by central differences."""
    found = np.zeros_like(output)
    for place in np.ndindex(*output.shape):
        apart = np.zeros_like(output)
        apart[place] = 1e-6
        found[place] = (loss(output + apart).sum() - loss(output - apart).sum()) / 2e-6
    return found


def in_float64(text: str, smoothing: float, label: np.ndarray) -> Any:
    """Return the loss of scores in NumPy."""
    classes = np.eye(CLASSES)[label]
    target = (1 - smoothing) * classes + smoothing / CLASSES

    def loss(output: np.ndarray) -> np.ndarray:
        if text == "binary_cross_entropy":
            found = target * np.logaddexp(0, -output) + (1 - target) * np.logaddexp(0, output)
            return np.asarray(found.mean(axis=1))
        entropy = -(target * log_softmax(output)).sum(axis=1)
        if text == "cross_entropy":
            return np.asarray(entropy)
        return np.asarray((1 - np.exp(-entropy)) ** float(text.partition("=")[2]) * entropy)

    return loss


@pytest.mark.parametrize(
    "text", ["cross_entropy", "binary_cross_entropy", "focal:gamma=2", "focal:gamma=1.5"]
)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_gradients_are_right_where_scores_are_0_too(text: str, smoothing: float) -> None:
    """A net whose last layer begins as zeros gives such scores."""
    smoothing = 0.0 if text.startswith("focal") else smoothing
    some_are_0 = OUTPUT / 5
    some_are_0[0], some_are_0[1:, 2], some_are_0[1:4, 0] = 0, 0, -0.0
    output = mx.nd.array(some_are_0)
    output.attach_grad()
    with mx.autograd.record():
        found = losses.build(text, smoothing, CLASSES)(output, mx.nd.array(LABEL))
    found.backward()
    loss = in_float64(text, smoothing, LABEL)
    np.testing.assert_allclose(found.asnumpy(), loss(some_are_0), rtol=1e-5)
    np.testing.assert_allclose(output.grad.asnumpy(), slope(loss, some_are_0), atol=2e-6)


@pytest.mark.parametrize(
    "text", ["cross_entropy", "focal", "focal:gamma=1", "focal:gamma=1.5", "binary_cross_entropy"]
)
def test_losses_of_extreme_outputs_are_finite(text: str) -> None:
    """Right beyond doubt, and wrong beyond doubt."""
    output = mx.nd.array([[200.0, -200.0, -200.0], [-200.0, 200.0, -200.0]])
    output.attach_grad()
    with mx.autograd.record():
        found = losses.build(text, 0.0, 3)(output, mx.nd.zeros(2))
    found.backward()
    assert np.isfinite(found.asnumpy()).all() and np.isfinite(output.grad.asnumpy()).all()
    assert found.asnumpy()[0] < 1e-6 < found.asnumpy()[1]


def test_the_default_loss_is_gluons() -> None:
    found, _ = losses_and_gradient("cross_entropy")
    gluons = mx.gluon.loss.SoftmaxCrossEntropyLoss()(mx.nd.array(OUTPUT), mx.nd.array(LABEL))
    np.testing.assert_array_equal(found, gluons.asnumpy())


def twice(output: Any, label: Any) -> Any:
    return 2 * losses.cross_entropy(output, label)


def one_number(output: Any, label: Any) -> Any:
    return losses.cross_entropy(output, label).mean()


def test_a_loss_by_path() -> None:
    found, _ = losses_and_gradient("tests.engine.models.test_losses:twice")
    np.testing.assert_allclose(found, 2 * cross_entropy(), rtol=1e-5)
    gluons, _ = losses_and_gradient("mxnet.gluon.loss:SoftmaxCELoss")
    np.testing.assert_allclose(gluons, cross_entropy(), rtol=1e-5)


def test_a_loss_that_is_a_mean_over_samples_is_refused() -> None:
    with pytest.raises(UsageError, match=r"one_number: gives \(1,\) for two samples"):
        losses.build("tests.engine.models.test_losses:one_number", 0.0, CLASSES)


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_the_distillation_loss_is_hintons(temperature: float) -> None:
    taught = RNG.standard_normal((SAMPLES, CLASSES)) * 3
    output = mx.nd.array(OUTPUT)
    output.attach_grad()
    with mx.autograd.record():
        found = losses.distillation(output, mx.nd.array(taught), temperature)
    found.backward()
    own, teachers = log_softmax(OUTPUT / temperature), log_softmax(taught / temperature)
    divergence = (np.exp(teachers) * (teachers - own)).sum(axis=1)
    np.testing.assert_allclose(found.asnumpy(), temperature**2 * divergence, rtol=1e-4, atol=1e-5)
    slope = temperature * (np.exp(own) - np.exp(teachers))
    np.testing.assert_allclose(output.grad.asnumpy(), slope, rtol=1e-4, atol=1e-5)


def test_the_distillation_loss_is_zero_where_teacher_and_net_agree() -> None:
    found = losses.distillation(mx.nd.array(OUTPUT), mx.nd.array(OUTPUT), 3.0)
    np.testing.assert_allclose(found.asnumpy(), 0, atol=1e-6)
