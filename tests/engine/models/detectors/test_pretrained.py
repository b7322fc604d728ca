"""--pretrained takes GluonCV's files of detectors, of any classes, and those of their backbones."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import runtime
from mxtrain.config.components.zoo import detector_names, gluoncv_names
from mxtrain.models.detectors import detectors, other_names
from mxtrain.models.parameters import pretrained, weights
from mxtrain.runtime import mx

# A net for each way in which GluonCV names parameters; all of a kind are named alike.
DETECTORS = (
    pytest.param("ssd_512_mobilenet1.0_voc", marks=pytest.mark.slow),
    pytest.param("ssd_512_resnet18_v1_voc", marks=pytest.mark.slow),
    pytest.param("ssd_300_vgg16_atrous_voc", marks=pytest.mark.slow),
    pytest.param("ssd_300_resnet34_v1b_voc", marks=pytest.mark.slow),
    pytest.param("ssd_300_mobilenet1.0_lite_coco", marks=pytest.mark.slow),
    "yolo3_mobilenet0.25_voc",
    "center_net_mobilenetv3_small_duc_voc",
    pytest.param("center_net_resnet18_v1b_voc", marks=pytest.mark.slow),
)
SIDE = {"ssd": 320, "yolo3": 64, "center_net": 64}


def initialized(net: Any, side: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net.initialize(mx.init.Uniform(0.1), force_reinit=True)
    net(mx.nd.zeros((1, 3, side, side)))
    return net


def gluoncv(name: str) -> Any:
    module, function = detector_names.function_of(name)
    with warnings.catch_warnings(), mx.name.NameManager():
        warnings.simplefilter("ignore")
        return getattr(runtime.load_gluoncv_module(module), function)(pretrained_base=False)


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_of_gluoncv_answers_here_as_there(name: str, tmp_path: Path) -> None:
    side = SIDE[detector_names.family_of(name)]
    theirs = initialized(gluoncv(name), side)
    theirs.save_parameters(str(tmp_path / "theirs.params"))
    num_classes = 80 if name.endswith("coco") else 20
    ours = initialized(detectors.build(name, num_classes), side)
    assert len(pretrained.load(ours, tmp_path / "theirs.params")) == len(weights.named_parameters(ours))
    x = mx.nd.random.normal(shape=(2, 3, side, side))
    with mx.autograd.train_mode():  # in which GluonCV's nets answer before they decode
        answers, answer = theirs(x), ours(x).asnumpy()
    expected = as_one(name, answers, len(answer))
    # MXNet's norms are off by up to 2e-3 of their values, and random weights enlarge that.
    np.testing.assert_allclose(answer, expected, rtol=1e-3, atol=2e-3 * np.abs(expected).max())


def as_one(name: str, answers: Any, count: int) -> np.ndarray:
    """Return what GluonCV's net answers as ours does."""
    family = detector_names.family_of(name)
    if family == "ssd":
        chosen = answers[:2]
    elif family == "yolo3":
        chosen = answers[4:8]
    else:
        heat, *others = (each.transpose((0, 2, 3, 1)).reshape((0, -3, -2)) for each in answers)
        chosen = [mx.nd.log(heat / (1 - heat)), *others]
    return mx.nd.concat(*[each.reshape((count, -1, each.shape[-1])) for each in chosen], dim=2).asnumpy()


def test_of_a_detector_of_other_classes_all_else_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name = "ssd_512_mobilenet1.0_voc"
    initialized(gluoncv(name), 320).save_parameters(str(tmp_path / "theirs.params"))
    ours = initialized(detectors.build(name, 3), 320)
    with caplog.at_level(logging.INFO):
        taken = set(pretrained.load(ours, tmp_path / "theirs.params"))
    left = set(weights.named_parameters(ours)) - taken
    assert len(left) == 12 and all(each.startswith("class_predictors.") for each in left)
    assert "left out, of another shape: class_predictors.0.predictor.weight ((84, 512" in caplog.text


@pytest.mark.parametrize(
    "name",
    [
        "ssd_300_mobilenet0.25_voc",
        pytest.param("yolo3_darknet53_voc", marks=pytest.mark.slow),
        pytest.param("ssd_300_resnet34_v1b_voc", marks=pytest.mark.slow),
        pytest.param("center_net_resnet18_v1b_voc", marks=pytest.mark.slow),
        pytest.param("center_net_dla34_voc", marks=pytest.mark.slow),
        pytest.param("ssd_512_resnet101_v2_voc", marks=pytest.mark.slow),
        pytest.param("center_net_mobilenetv3_small_duc_voc", marks=pytest.mark.slow),
    ],
)
def test_a_classifier_is_taken_as_backbone(name: str, tmp_path: Path) -> None:
    module, function = gluoncv_names.function_of(other_names.backbone_of(name))
    classifier = initialized(getattr(runtime.load_gluoncv_module(module), function)(), 224)
    classifier.save_parameters(str(tmp_path / "classifier.params"))
    net = detectors.build(name, 3)
    initialized(net, SIDE[detector_names.family_of(name)])
    taken = pretrained.load(net, tmp_path / "classifier.params")
    assert len(taken) > 0.9 * (len(weights.named_parameters(classifier)) - 4)  # a head has up to two layers


def test_every_backbone_but_vgg_is_a_classifier() -> None:
    backbones = {other_names.backbone_of(name) for name in detector_names.DETECTORS}
    assert backbones - {*gluoncv_names.GLUONCV_CLASSIFIERS} == {"vgg16_atrous"}
