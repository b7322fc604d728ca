"""SSDs are GluonCV's: anchors, targets, losses and detections, but for what is divided."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from mxtrain import runtime
from mxtrain.config.components.zoo import detector_names
from mxtrain.config.values.sizes import Size
from mxtrain.core.errors import UsageError
from mxtrain.models.detectors import detections, detectors, ssd_anchors, ssd_net
from mxtrain.models.detectors.ssd_coder import BACKGROUND, IGNORED, SsdCoder
from mxtrain.runtime import mx
from tests.engine.models.detectors import cases

NAME = "ssd_512_mobilenet1.0_voc"


@pytest.fixture(scope="module")
def coder() -> Any:
    return detectors.coder(NAME, cases.CLASSES, Size(cases.SIDE, cases.SIDE))


def gluoncv(module: str) -> Any:
    return runtime.load_gluoncv_module(f"gluoncv.{module}")


def theirs(name: str) -> Any:
    module, function = detector_names.function_of(name)
    classes = {"classes": ["one"] * 20} if name.endswith("custom") else {}
    with warnings.catch_warnings(), mx.name.NameManager():
        warnings.simplefilter("ignore")
        made = getattr(runtime.load_gluoncv_module(module), function)
        return made(pretrained_base=False, anchor_alloc_size=64, **classes)


# GluonCV's anchors of mobilenet0.25 end in the middle of the picture. Nets of a size and a backbone have the same.
NETS = [name for name in detector_names.SSD_NETS if "mobilenet0.25" not in name]


@pytest.mark.parametrize(
    "name",
    [name if name.endswith("_voc") else pytest.param(name, marks=pytest.mark.slow) for name in NETS],
)
def test_anchors_are_those_of_gluoncv(name: str) -> None:
    side, net = detector_names.image_size_of(name), theirs(name)
    cells = ssd_net.cells(ssd_net.build(name, 20), side, side)
    found = []
    for (rows, columns), generator in zip(cells, net.anchor_generators):
        generator.initialize()
        found.append(generator(mx.nd.zeros((1, 1, rows, columns))).asnumpy().reshape(-1, 4))
    ours = ssd_anchors.anchors(name, cells, Size(side, side))
    np.testing.assert_allclose(ours, np.concatenate(found), rtol=1e-6)


def test_anchors_lie_over_the_whole_picture_and_in_its_proportion() -> None:
    name = "ssd_300_mobilenet0.25_voc"
    whole, half = (ssd_anchors.anchors(name, [(10, 10)], Size(side, side)) for side in (300, 150))
    np.testing.assert_allclose(half * 2, whole, rtol=1e-6)
    assert whole[:, 0].max() == whole[:, 1].max() == 285


def test_a_picture_too_small_for_the_net_is_refused() -> None:
    with pytest.raises(UsageError, match="--image-size 64x64: is too small for --model ssd_300_vgg16"):
        detectors.coder("ssd_300_vgg16_atrous_voc", 3, Size(64, 64))


@pytest.mark.parametrize("seed", range(20))
def test_targets_are_those_of_gluoncv(seed: int, coder: SsdCoder) -> None:
    boxes = cases.boxes(seed)
    targets = coder.targets(boxes)
    generator = gluoncv("model_zoo.ssd.target").SSDTargetGenerator(negative_mining_ratio=-1)
    places, classes = mx.nd.array(boxes[:, :, :4]), mx.nd.array(boxes[:, :, 4:5])
    wanted, shifts, _ = generator(mx.nd.array(coder.anchors[None]), None, places, classes)
    np.testing.assert_array_equal(targets.classes, wanted.asnumpy())
    np.testing.assert_allclose(targets.shifts, shifts.asnumpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_losses_are_those_of_gluoncv_not_divided(seed: int, coder: SsdCoder) -> None:
    targets = coder.targets(cases.boxes(seed, least=0))
    answer = cases.answer(seed, len(coder.anchors), cases.CLASSES + 5)
    by_name, weight, *_ = coder.losses(answer, targets)
    loss = gluoncv("loss").SSDMultiBoxLoss(min_hard_negatives=3)
    cut = cases.CLASSES + 1
    wanted = [[mx.nd.array(each)] for each in targets[:2]]
    sums, *_ = loss([answer[:, :, :cut]], [answer[:, :, cut:]], *wanted)
    assert weight == (targets.classes > 0).sum() > 0
    np.testing.assert_allclose(
        sum(each.asnumpy() for each in by_name.values()), sums[0].asnumpy() * weight, rtol=1e-5
    )


def test_gradients_are_those_of_gluoncv_not_divided(coder: SsdCoder) -> None:
    targets, cut = coder.targets(cases.boxes(11, least=1)), cases.CLASSES + 1
    own = cases.answer(11, len(coder.anchors), cases.CLASSES + 5)
    classes, boxes = own[:, :, :cut], own[:, :, cut:]
    for array in (own, classes, boxes):
        array.attach_grad()
    wanted = [[mx.nd.array(each)] for each in targets[:2]]
    with mx.autograd.record():
        by_name, weight, *_ = coder.losses(own, targets)
        total = by_name["class_loss"] + by_name["box_loss"]
        sums, *_ = gluoncv("loss").SSDMultiBoxLoss()([classes], [boxes], *wanted)
    mx.autograd.backward([total, *sums])
    theirs = mx.nd.concat(classes.grad, boxes.grad, dim=2).asnumpy() * weight
    assert (theirs != 0).any(axis=(1, 2)).all()
    np.testing.assert_allclose(own.grad.asnumpy(), theirs, rtol=1e-4, atol=1e-6)


def test_the_losses_of_a_picture_do_not_depend_on_others(coder: SsdCoder) -> None:
    boxes, answer = cases.boxes(3), cases.answer(3, len(coder.anchors), cases.CLASSES + 5)
    together = coder.losses(answer, coder.targets(boxes))
    apart = [coder.losses(answer[at : at + 1], coder.targets(boxes[at : at + 1])) for at in range(len(boxes))]
    for name, losses in together.by_name.items():
        assert losses.asnumpy().tolist() == [each.by_name[name].asscalar() for each in apart]
    assert together.weight == sum(each.weight for each in apart)


def test_a_picture_without_boxes_teaches_what_is_no_object(coder: SsdCoder) -> None:
    targets = coder.targets(np.full((1, 8, 6), -1, np.float32))
    by_name, weight, *_ = coder.losses(cases.answer(0, len(coder.anchors), cases.CLASSES + 5)[:1], targets)
    assert weight == 0 and by_name["class_loss"].asscalar() > 0 == by_name["box_loss"].asscalar()


def test_a_crowd_teaches_nothing(coder: SsdCoder) -> None:
    boxes = np.full((1, 8, 6), -1, np.float32)
    boxes[0, 0] = [20, 20, 200, 200, 1, 2]
    (classes,) = coder.targets(boxes).classes
    assert set(classes) == {BACKGROUND, IGNORED}


def test_detections_are_those_of_gluoncv(coder: SsdCoder) -> None:
    answer, cut = cases.answer(7, len(coder.anchors), cases.CLASSES + 5), cases.CLASSES + 1
    coding = gluoncv("nn.coder")
    boxes = coding.NormalizedBoxCenterDecoder((0.1, 0.1, 0.2, 0.2))(
        answer[:, :, cut:], mx.nd.array(coder.anchors[None])
    )
    classes, scores = coding.MultiPerClassDecoder(cut, thresh=0.01)(answer[:, :, :cut].softmax(axis=-1))
    rows = [
        mx.nd.concat(classes[:, :, at : at + 1], scores[:, :, at : at + 1], boxes, dim=-1)
        for at in range(cases.CLASSES)
    ]
    wanted = mx.nd.contrib.box_nms(
        mx.nd.concat(*rows, dim=1),
        overlap_thresh=0.45,
        topk=400,
        valid_thresh=0.01,
        id_index=0,
        score_index=1,
        coord_start=2,
    )[:, :100].asnumpy()
    is_one = wanted[:, :, :1] >= 0
    wanted[:, :, 2:] = np.where(is_one, np.clip(wanted[:, :, 2:], 0, cases.SIDE), -1)
    found = detections.of_answer(coder, answer, Size(cases.SIDE, cases.SIDE))
    assert is_one.sum() > 100
    np.testing.assert_array_equal(found.asnumpy(), wanted)


@pytest.mark.parametrize("name", [NAME, "yolo3_mobilenet0.25_voc", "center_net_resnet18_v1b_voc"])
@pytest.mark.parametrize("seed", range(3))
def test_answers_to_mirrored_pictures_are_mirrored_back(seed: int, name: str) -> None:
    """Twice the same answer, once mirrored, is a detection for each side of the picture."""
    size = Size(cases.SIDE, cases.SIDE)
    coder = detectors.coder(name, cases.CLASSES, size)
    box = np.random.default_rng(seed).uniform([10, 10, 60, 110], [30, 90, 110, 200])  # left of the middle
    answer = cases.right_answer(coder, box, seed)
    one = detections.of_answer(coder, answer, size).asnumpy()[0]
    np.testing.assert_allclose(one[one[:, 1] > 0.5], [[seed, one[0, 1], *box]], rtol=1e-4)
    both = detections.of_both(coder, answer, answer, size).asnumpy()[0]
    likely = both[both[:, 1] > 0.5]
    mirrored = [cases.SIDE - box[2], box[1], cases.SIDE - box[0], box[3]]
    ordered = likely[np.argsort(likely[:, 2])]
    np.testing.assert_allclose(ordered[:, 2:], [box, mirrored], rtol=1e-4)
    assert ordered[:, 0].tolist() == [seed, seed] and ordered[0, 1] == ordered[1, 1]
