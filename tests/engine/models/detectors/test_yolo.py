"""YOLOv3s are GluonCV's: targets, losses and detections, but for what is divided."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from mxtrain import runtime
from mxtrain.config.values.sizes import Size
from mxtrain.models.detectors import detections, detectors
from mxtrain.models.detectors.yolo_coder import YoloCoder
from mxtrain.models.parameters import weights
from mxtrain.runtime import mx
from tests.engine.models.detectors import cases

STRETCH = 1e5
NAME, SIZE = "yolo3_mobilenet0.25_voc", Size(cases.SIDE, cases.SIDE)


@pytest.fixture(scope="module")
def nets() -> tuple[Any, Any]:
    """GluonCV's net and ours, of the same weights."""
    theirs_of = runtime.load_gluoncv_module("gluoncv.model_zoo.yolo.yolo3").yolo3_mobilenet0_25_custom
    theirs = theirs_of(classes=["one"] * cases.CLASSES, pretrained_base=False)
    ours = detectors.build(NAME, cases.CLASSES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mx.random.seed(1)
        theirs.initialize(mx.init.Xavier())
        ours.initialize()
    x = picture(0)
    theirs(x), ours(x)
    for output in theirs.yolo_outputs:  # random weights answer nearly the same everywhere
        output.prediction.weight.set_data(output.prediction.weight.data() * STRETCH)
    for name, parameter in weights.named_parameters(ours).items():
        parameter.set_data(weights.named_parameters(theirs)[name].data())
    return theirs, ours


def picture(seed: int) -> Any:
    return mx.nd.array(np.random.default_rng(seed).normal(size=(cases.PICTURES, 3, *SIZE)))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_losses_are_those_of_gluoncv(seed: int, nets: tuple[Any, Any]) -> None:
    theirs, ours = nets
    x, boxes, coder = picture(seed), cases.boxes(seed), YoloCoder(SIZE, cases.CLASSES)
    generator = runtime.load_gluoncv_module(
        "gluoncv.model_zoo.yolo.yolo_target"
    ).YOLOV3PrefetchTargetGenerator
    places, classes = mx.nd.array(boxes[:, :, :4]), mx.nd.array(boxes[:, :, 4:5])
    with mx.autograd.train_mode():
        _, anchors, offsets, maps, *_ = theirs(x)
    fixed = generator(cases.CLASSES)(x, maps, anchors, offsets, places, classes)
    targets = coder.targets(boxes)
    np.testing.assert_array_equal(targets.has_box, fixed[0].asnumpy()[:, :, 0])
    np.testing.assert_allclose(targets.centres, fixed[1].asnumpy(), atol=1e-5)
    np.testing.assert_allclose(targets.stretches, fixed[2].asnumpy(), atol=1e-5)
    with mx.autograd.record():
        wanted = theirs(x, places, *fixed)
    with mx.autograd.record():  # running statistics move after both
        by_name, weight, *_ = coder.losses(ours(x), targets)
    assert weight == cases.PICTURES
    for losses, same in zip(by_name.values(), wanted):
        np.testing.assert_allclose(losses.asnumpy(), same.asnumpy(), rtol=2e-4)


def test_detections_are_those_of_gluoncv(nets: tuple[Any, Any]) -> None:
    theirs, ours = nets
    x, coder = picture(5), YoloCoder(SIZE, cases.CLASSES)
    classes, scores, boxes = theirs(x)
    found = detections.of_answer(coder, ours(x), SIZE).asnumpy()
    wanted = mx.nd.concat(classes, scores, boxes, dim=2).asnumpy()
    is_one = wanted[:, :, :1] >= 0
    wanted[:, :, 2:] = np.where(is_one, np.clip(wanted[:, :, 2:], 0, cases.SIDE), -1)
    assert is_one.sum() > 100
    np.testing.assert_allclose(found[:, :, 1], wanted[:, :, 1], rtol=1e-4)
    for own_rows, rows in zip(found, wanted):  # of equal scores either may come first
        are_same = np.isclose(own_rows[:, None], rows, rtol=1e-4, atol=1e-3).all(axis=-1)
        assert are_same.any(axis=0).all() and are_same.any(axis=1).all()


def test_a_crowd_is_no_object() -> None:
    boxes = np.full((1, 8, 6), -1, np.float32)
    boxes[0, 0] = [20, 20, 200, 200, 1, 2]
    assert not YoloCoder(SIZE, cases.CLASSES).targets(boxes).has_box.any()
