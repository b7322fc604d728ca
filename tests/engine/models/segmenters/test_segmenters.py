"""Nets of pixels answer as GluonCV's do, by GluonCV's names, and learn a step each."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest

from mxtrain import config, runtime
from mxtrain.config.components.zoo import segmenter_names
from mxtrain.models.parameters import weights
from mxtrain.models.segmenters import segmenters
from mxtrain.models.segmenters.upsampling import upsampled_like
from mxtrain.runtime import mx
from mxtrain.tasks.segmentation import Segmentation
from mxtrain.train.net import build_net

CLASSES = 3
ONE_OF_EACH = (
    *("fcn_resnet50_voc", "psp_resnet50_ade", "deeplab_resnet50_ade", "deeplab_resnest50_ade"),
    *("deeplab_plus_xception_coco", "deeplab_v3b_plus_wideresnet_citys", "fastscnn_citys"),
)


def some(names: tuple[str, ...]) -> list:
    """Return names as parameters, of which all but the smallest net's are slow."""
    return [pytest.param(each, marks=() if each == "fastscnn_citys" else pytest.mark.slow) for each in names]


def gluoncvs(name: str, num_classes: int, side: int, has_aux: bool):
    """Return GluonCV's own net for pictures of this side, not initialised."""
    module, class_name = segmenter_names.class_of(name)
    backbone = segmenter_names.backbone_of(name)
    keywords = {"backbone": backbone} if backbone else {}
    sizes = {"crop_size": side} if name.startswith(("fcn", "psp")) else {"height": side, "width": side}
    net_of = getattr(runtime.load_gluoncv_module(module), class_name)
    with contextlib.redirect_stdout(None):  # PSPNet prints
        return net_of(num_classes, aux=has_aux, pretrained_base=False, **sizes, **keywords)


def test_names_are_those_of_gluoncv() -> None:
    every = vars(runtime.load_gluoncv_module("gluoncv.model_zoo.model_zoo"))["_models"]
    families = ("fcn", "psp", "deeplab", "fastscnn", *segmenter_names.NOT_HERE)
    known = {name for name in every if name.startswith(families) and not name.endswith("_int8")}
    # DeepLabV3+ of Xception has a function in its module, and no entry in GluonCV's table.
    own = {*segmenter_names.SEGMENTERS} - {"deeplab_plus_xception_coco"}
    assert {name for name in known if not name.startswith(segmenter_names.NOT_HERE)} == own


@pytest.mark.timeout(200)
@pytest.mark.parametrize("name", some(ONE_OF_EACH))
@pytest.mark.parametrize("side", [64, 96])
def test_answers_are_those_of_gluoncv(name: str, side: int) -> None:
    has_aux = segmenters.takes_auxiliary(name)
    theirs = gluoncvs(name, CLASSES, side, has_aux)
    net = segmenters.build(name, CLASSES, has_auxiliary=True)
    data = mx.nd.random.normal(shape=(2, 3, side, side))
    for each in (net, theirs):
        each.initialize(mx.init.Xavier(), force_reinit=True)
        each(data)
    own, others = weights.named_parameters(net), weights.named_parameters(theirs)
    assert list(own) == list(others)
    for key, parameter in own.items():
        others[key].set_data(parameter.data())
    net.hybridize()
    answer = net(data)
    answers = theirs(data)
    whole = upsampled_like(mx.nd, answer, data).asnumpy()
    scale = max(float(np.abs(whole).max()), 1e-30)
    assert np.abs(whole[:, :CLASSES] - answers[0].asnumpy()).max() < 1e-4 * scale
    if has_aux and name != "deeplab_plus_xception_coco":  # whose auxiliary head is enlarged in two steps here
        assert np.abs(whole[:, CLASSES:] - answers[1].asnumpy()).max() < 1e-4 * scale
    assert answer.shape[1] == CLASSES * (1 + has_aux)


@pytest.mark.parametrize("sides", [((1, 1), (9, 4)), ((7, 9), (33, 40)), ((5, 5), (5, 5)), ((8, 3), (2, 1))])
def test_enlarging_is_mxnets(sides: tuple) -> None:
    before, after = sides
    maps = mx.nd.random.normal(shape=(2, 3, *before))
    maps.attach_grad()
    with mx.autograd.record():
        found = upsampled_like(mx.nd, maps, mx.nd.zeros((1, 1, *after)))
    towards = mx.nd.random.normal(shape=found.shape)
    found.backward(towards)
    gradient = maps.grad.copy()
    with mx.autograd.record():
        expected = mx.nd.contrib.BilinearResize2D(maps, height=after[0], width=after[1])
    expected.backward(towards)
    np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradient.asnumpy(), maps.grad.asnumpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", some(segmenter_names.SEGMENTERS))
def test_a_step_is_learnt(name: str) -> None:
    flags = ["--train", "t.rec", "--task", "segmentation", "--model", name, "--micro-batch", "1"]
    run = config.parse([*flags, "--image-size", "64"])
    task = Segmentation(run, {"class_names": ["a", "b", "c"]})
    mask = np.random.default_rng(0).integers(0, 3, (2, 64, 64)).astype(np.uint8)
    mask[:, :9] = 255
    data = mx.nd.random.normal(shape=(2, 3, 64, 64))
    arrays = {"data": data, "mask": mx.nd.array(mask, dtype="uint8"), "size": mx.nd.array([[64, 64]] * 2)}
    with build_net.compiling("off"):
        net = build_net.build_to_train(task, [mx.cpu()]).net
        with mx.autograd.record():
            outcome = task.training_forward(None)(net, arrays)
        outcome.losses.backward()
        gradients = [each.grad() for each in net.collect_params().values() if each.grad_req != "null"]
        assert all(np.isfinite(each.asnumpy()).all() for each in gradients)
        assert sum(bool(each.asnumpy().any()) for each in gradients) > 0.9 * len(gradients)
        judged = task.plain_forward()(net, arrays)
    assert outcome.weight == (mask != 255).sum() and np.isfinite(outcome.losses.asnumpy()).all()
    assert judged.output.shape == mask.shape


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", some(("fastscnn_citys", "fcn_resnet50_voc")))
def test_files_of_gluoncv_load(name: str, tmp_path: Path) -> None:
    """Of the same net, of other classes, and of its backbone."""
    theirs = gluoncvs(name, 7, 64, has_aux=True)
    theirs.initialize(mx.init.Xavier(), force_reinit=True)
    theirs(mx.nd.zeros((1, 3, 64, 64)))
    theirs.save_parameters(str(tmp_path / "whole.params"))
    flags = ["--train", "t.rec", "--task", "segmentation", "--model", name, "--image-size", "64"]
    for classes in (7, 3):
        run = config.parse([*flags, "--pretrained", str(tmp_path / "whole.params")])
        task = Segmentation(run, {"class_names": [str(each) for each in range(classes)]})
        net = build_net.build_to_train(task, [mx.cpu()]).net
        own, others = weights.named_parameters(net), weights.named_parameters(theirs)
        taken = [
            key
            for key in own
            if own[key].shape == others[key].shape
            and np.array_equal(own[key].data().asnumpy(), others[key].data().asnumpy())
        ]
        assert len(taken) >= len(own) - (0 if classes == 7 else 4)
    if segmenter_names.backbone_of(name):
        classifier = runtime.load_gluoncv_module("gluoncv.model_zoo.resnetv1b").resnet50_v1s()
        classifier.initialize(mx.init.Xavier())
        classifier(mx.nd.zeros((1, 3, 64, 64)))
        classifier.save_parameters(str(tmp_path / "backbone.params"))
        run = config.parse([*flags, "--pretrained", str(tmp_path / "backbone.params")])
        net = build_net.build_to_train(Segmentation(run, {"class_names": ["a", "b"]}), [mx.cpu()]).net
        own, others = weights.named_parameters(net), weights.named_parameters(classifier)
        same = [key for key in own if key in others]
        assert len(same) > 200
        for key in same:
            assert np.array_equal(own[key].data().asnumpy(), others[key].data().asnumpy())
