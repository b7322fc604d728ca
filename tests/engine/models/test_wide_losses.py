"""Cross-entropy and the likeliest of many classes by our operators: as exact as can be, and for training alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain import native
from mxtrain.models import losses
from mxtrain.runtime import mx
from tests.support.nets.threads import assert_same_bits_of_any_threads, needs_own_operators

SHAPES = [(1, 256), (7, 257), (3, 5, 1001), (2, 50_003), (300, 263)]


def sample(shape: tuple[int, ...], spread: float = 3.0) -> tuple[Any, Any, Any]:
    """Return scores, a label for each row of them, and the gradients of their losses."""
    draw = np.random.default_rng(sum(shape))
    scores, label = draw.normal(1, spread, shape), draw.integers(0, shape[-1], shape[:-1])
    arrays = scores, label, draw.normal(size=shape[:-1])
    first, second, third = (each.astype(np.float32) for each in arrays)
    return first, second, third


def computed(scores: Any, label: Any, outer: Any, smoothing: float = 0.0) -> tuple[Any, Any]:
    """Return the losses, and the gradient of the scores."""
    output = mx.nd.array(scores)
    output.attach_grad()
    with mx.autograd.record():
        found = losses.cross_entropy(output, mx.nd.array(label), smoothing)
    found.backward(mx.nd.array(outer))
    return found.asnumpy(), output.grad.asnumpy()


def exact(scores: Any, label: Any, outer: Any, smoothing: float) -> tuple[Any, Any]:
    scores = scores.astype(np.float64)
    less = scores - scores.max(-1, keepdims=True)
    log_shares = less - np.log(np.exp(less).sum(-1, keepdims=True))
    num_classes = scores.shape[-1]
    nearest = np.clip(label, 0, num_classes - 1).astype(int)[..., None]
    wanted = np.full(scores.shape, smoothing / num_classes)
    np.put_along_axis(wanted, nearest, 1 - smoothing + smoothing / num_classes, -1)
    return -(wanted * log_shares).sum(-1), (np.exp(log_shares) - wanted) * outer[..., None]


@pytest.fixture(params=[pytest.param("ours", marks=needs_own_operators), "MXNet's"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How losses are computed, where the part in C is built and where it is not."""
    if request.param != "ours":
        monkeypatch.setattr(native, "OPERATORS", None)
    return str(request.param)


@pytest.mark.parametrize("spread", [0.0, 3.0, 40.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_losses_and_gradients_are_exact(
    shape: tuple[int, ...], smoothing: float, spread: float, way: str
) -> None:
    scores, label, outer = sample(shape, spread)
    apart = 2e-5 if way == "ours" else 1e-3
    for found, right in zip(
        computed(scores, label, outer, smoothing), exact(scores, label, outer, smoothing)
    ):
        np.testing.assert_allclose(found, right, rtol=apart, atol=apart)


def test_a_label_that_is_no_class_is_the_nearest(way: str) -> None:
    """As of a token that does not count, whose loss is then of no weight."""
    scores, _, outer = sample((4, 300))
    label = np.array([-1, -(10.0**9), 10.0**9, 300], np.float32)
    for found, right in zip(computed(scores, label, outer), exact(scores, label, outer, 0.0)):
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)


@needs_own_operators
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_what_is_no_number_stays_none(number: float) -> None:
    """MXNet's log_softmax passes over it, so that the loss of the row is a number."""
    scores, label, outer = sample((3, 300))
    scores[1, 257] = number
    of_rows, gradient = computed(scores, label, outer)
    np.testing.assert_array_equal(np.isfinite(of_rows), [True, False, True])
    np.testing.assert_array_equal(np.isfinite(gradient).all(axis=1), [True, False, True])
    assert np.isnan(gradient[1]).all()


@needs_own_operators
def test_a_certain_label_costs_nothing() -> None:
    """And not less than that; MXNet's log_softmax gives up to 2e-6 there."""
    scores, label, outer = sample((50, 700))
    scores[np.arange(50), label.astype(int)] = 1000
    assert (computed(scores, label, outer)[0] == 0).all()


@needs_own_operators
def test_the_bits_are_those_of_any_number_of_threads() -> None:
    arrays = sample((501, 333))
    assert_same_bits_of_any_threads(lambda: computed(*arrays, 0.1))


@needs_own_operators
def test_our_operators_are_for_training_with_many_classes() -> None:
    def is_ours(classes: int) -> bool:
        scores, label, outer = sample((37, classes))
        as_mxnets = -mx.nd.array(scores).log_softmax(axis=1).pick(mx.nd.array(label), axis=1)
        judged = losses.cross_entropy(mx.nd.array(scores), mx.nd.array(label))
        np.testing.assert_array_equal(judged.asnumpy(), as_mxnets.asnumpy())
        return bool((computed(scores, label, outer)[0] != as_mxnets.asnumpy()).any())

    assert not is_ours(losses.FEWEST_CLASSES - 1)
    assert is_ours(4 * losses.FEWEST_CLASSES)


@pytest.mark.parametrize("shape", [(5, 10), *SHAPES], ids=str)
def test_the_likeliest_is_the_first_of_the_largest(shape: tuple[int, ...], way: str) -> None:
    scores, *_ = sample(shape)
    rows = scores.reshape(-1, shape[-1])
    rows[:, -1] = rows[:, shape[-1] // 3] = np.where(np.arange(len(rows)) % 2, 100, -100)
    rows[0] = -np.inf
    found = losses.likeliest(mx.nd.array(scores)).asnumpy()
    np.testing.assert_array_equal(found, scores.argmax(-1))
    wide = mx.nd.array(scores, dtype=np.float64)
    np.testing.assert_array_equal(losses.likeliest(wide).asnumpy(), scores.argmax(-1))
