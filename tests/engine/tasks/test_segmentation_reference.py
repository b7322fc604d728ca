"""The loss over pixels is that of a plain reference, and views see every pixel."""

from __future__ import annotations

import numpy as np
import pytest

from mxtrain import config
from mxtrain.config.values.sizes import Size
from mxtrain.data.fields import Array
from mxtrain.models.segmenters import views
from mxtrain.models.segmenters.upsampling import upsampled_like
from mxtrain.runtime import mx
from mxtrain.tasks.segmentation import Segmentation, SegmentationForward

CLASSES, SIDE = 3, 16


def reference(logits: Array, mask: Array, weights: Array) -> tuple[Array, float]:
    """Return the loss of each picture, and the summed weight, in float64 from the definition."""
    logits = logits.astype(np.float64)
    shares = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    losses, total = np.zeros(len(mask)), 0.0
    for place in np.argwhere(mask != 255):
        picture, row, column = place
        number = mask[picture, row, column]
        losses[picture] -= weights[number] * shares[picture, number, row, column]
        total += weights[number]
    return losses, total


@pytest.mark.parametrize("aux_weight", [0.0, 0.4])
@pytest.mark.parametrize("weights", [None, [1.0, 0.5, 0.0]])
def test_losses_are_those_of_a_reference(aux_weight: float, weights: list[float] | None) -> None:
    rng = np.random.default_rng(0)
    answer = mx.nd.array(rng.normal(0, 3, (2, 2 * CLASSES, 4, 4)))
    mask = rng.integers(0, CLASSES, (2, SIDE, SIDE)).astype(np.uint8)
    mask[0, :5], mask[1] = 255, 255  # the second picture says nothing at all
    mask[1, 3, 3] = 1
    arrays = {"data": mx.nd.zeros((2, 3, SIDE, SIDE)), "mask": mx.nd.array(mask, dtype="uint8")}
    forward = SegmentationForward(CLASSES, lambda each: [each["data"]], aux_weight, weights)
    outcome = forward(lambda data: answer, arrays)
    whole = upsampled_like(mx.nd, answer, arrays["data"]).asnumpy()
    used = np.array(weights or [1.0] * CLASSES)
    expected, weight = reference(whole[:, :CLASSES], mask, used)
    if aux_weight:
        expected = expected + aux_weight * reference(whole[:, CLASSES:], mask, used)[0]
    np.testing.assert_allclose(outcome.losses.asnumpy(), expected, rtol=1e-5)
    assert outcome.weight == pytest.approx(weight, rel=1e-7)
    right = (whole[:, :CLASSES].argmax(axis=1) == mask)[mask != 255].sum()
    assert [float(outcome.means["pixel_accuracy"][0].asscalar()), outcome.means["pixel_accuracy"][1]] == [
        right,
        (mask != 255).sum(),
    ]


def test_masks_that_say_nothing_have_no_loss() -> None:
    arrays = {
        "data": mx.nd.zeros((1, 3, SIDE, SIDE)),
        "mask": mx.nd.full((1, SIDE, SIDE), 255, dtype="uint8"),
    }
    answer = mx.nd.random.normal(shape=(1, CLASSES, 2, 2))
    answer.attach_grad()
    with mx.autograd.record():
        outcome = SegmentationForward(CLASSES, lambda each: [each["data"]])(lambda data: answer, arrays)
    outcome.losses.backward()
    assert outcome.weight == 0 and not outcome.losses.asnumpy().any() and not answer.grad.asnumpy().any()


@pytest.mark.parametrize("length", [1, 7, 16, 17, 31, 32, 33, 100])
@pytest.mark.parametrize("window", [1, 5, 16])
def test_windows_cover_all_and_none_reaches_beyond(length: int, window: int) -> None:
    starts = views.starts(length, window)
    covered = np.zeros(length, int)
    for start in starts:
        assert start >= 0 and (start + window <= length or starts == [0])
        covered[start : start + window] += 1
    assert covered.all() and len(starts) <= 3 + 2 * length / window


@pytest.mark.parametrize("names", [("flip",), ("windows",), ("scales",), ("flip", "scales", "windows")])
def test_views_of_a_net_that_sees_single_pixels_say_the_same(names: tuple[str, ...]) -> None:
    """Its answer to a pixel depends on that pixel alone, so no window, mirror or blockwise scale changes it."""
    rng = np.random.default_rng(1)
    blocks = rng.integers(0, CLASSES, (2, 4, 6))
    classes = np.kron(blocks, np.ones((1, 8, 8), int))
    data = mx.nd.array(np.eye(CLASSES)[classes].transpose(0, 3, 1, 2))
    found = views.classes_in_views(lambda seen: 20 * seen, data, Size(16, 16), names).asnumpy()
    assert (found == classes).mean() > (0.9 if "scales" in names else 0.9999)


def test_a_prediction_says_nothing_beside_the_picture() -> None:
    run = config.parse(["--train", "t.rec", "--task", "segmentation", "--image-size", "64"])
    task = Segmentation(run, {"class_names": ["a", "b", "c"]})
    arrays = {"data": mx.nd.zeros((1, 3, 64, 64)), "size": mx.nd.array([[30, 60]])}
    answer = task.answer(lambda data: mx.nd.random.normal(shape=(1, 3, 8, 8)), arrays).asnumpy()[0]
    assert ((answer != 255).any(axis=1).sum(), (answer != 255).any(axis=0).sum()) == (32, 64)
    shown = task.shown(answer)
    assert shown["mask"].shape == (32, 64) and sum(each["share"] for each in shown["areas"]) == pytest.approx(
        1
    )
