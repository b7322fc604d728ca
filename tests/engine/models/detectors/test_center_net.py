"""CenterNets are GluonCV's: targets, losses and detections, but for what is divided."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain import runtime
from mxtrain.config.values.sizes import Size
from mxtrain.core.errors import UsageError
from mxtrain.models.detectors import detections, detectors
from mxtrain.models.detectors.center_net_coder import CenterNetCoder
from mxtrain.runtime import mx
from tests.engine.models.detectors import cases

SIZE = Size(cases.SIDE, cases.SIDE)
SIDE = cases.SIDE // 4
CODER = CenterNetCoder(SIZE, cases.CLASSES)


def gluoncv(module: str) -> Any:
    return runtime.load_gluoncv_module(f"gluoncv.{module}")


def maps(cells: Any) -> Any:
    """Return an array of cells as GluonCV has it, with channels before rows and columns."""
    return cells.reshape((len(cells), SIDE, SIDE, -1)).transpose((0, 3, 1, 2))


@pytest.mark.parametrize("seed", range(10))
def test_targets_are_those_of_gluoncv(seed: int) -> None:
    boxes = cases.boxes(seed)
    targets = CODER.targets(boxes)
    generator = gluoncv("model_zoo.center_net.target_generator").CenterNetTargetGenerator
    for number, of_picture in enumerate(boxes):
        real = of_picture[of_picture[:, 4] >= 0]
        wanted = generator(cases.CLASSES, SIDE, SIDE)(real[:, :4] / 4, real[:, 4])
        heat, sizes, mask, shifts, _ = (each.asnumpy() for each in wanted)
        ours = [maps(each[number : number + 1])[0] for each in targets]
        np.testing.assert_allclose(ours[0], heat, atol=1e-6)
        np.testing.assert_allclose(ours[1], sizes, atol=1e-5)
        np.testing.assert_allclose(ours[2], shifts, atol=1e-5)
        np.testing.assert_array_equal(ours[3][0], mask[0])


@pytest.mark.parametrize("seed", range(3))
def test_losses_are_those_of_gluoncv(seed: int) -> None:
    targets = CODER.targets(cases.boxes(seed))
    answer = cases.answer(seed, SIDE * SIDE, cases.CLASSES + 4)
    by_name, weight, *_ = CODER.losses(answer, targets)
    heat, sizes, shifts = (
        mx.nd.array(maps(answer[:, :, start:end].asnumpy()))
        for start, end in ((0, cases.CLASSES), (cases.CLASSES, -2), (cases.CLASSES + 2, cases.CLASSES + 4))
    )
    wanted = [mx.nd.array(maps(each)) for each in targets]
    mask = mx.nd.concat(wanted[3], wanted[3], dim=1)
    loss = gluoncv("loss")
    same = (
        loss.HeatmapFocalLoss(from_logits=True)(heat.sigmoid().clip(1e-4, 1 - 1e-4), wanted[0]),
        0.1 * loss.MaskedL1Loss()(sizes, wanted[1], mask),
        loss.MaskedL1Loss()(shifts, wanted[2], mask),
    )
    counts = (weight, targets.has_centre.sum(), targets.has_centre.sum())
    for losses, one, count in zip(by_name.values(), same, counts):
        assert losses.asnumpy().sum() / count == pytest.approx(one.asscalar(), rel=1e-4)


def test_detections_are_those_of_gluoncv() -> None:
    answer = cases.answer(9, SIDE * SIDE, cases.CLASSES + 4)
    heat, sizes, shifts = (
        mx.nd.array(maps(answer[:, :, start:end].asnumpy()))
        for start, end in ((0, cases.CLASSES), (cases.CLASSES, -2), (cases.CLASSES + 2, cases.CLASSES + 4))
    )
    heat = heat.sigmoid()
    peaks = heat * (mx.nd.Pooling(heat, kernel=(3, 3), pad=(1, 1), pool_type="max") == heat)
    classes, scores, boxes = gluoncv("nn.coder").CenterNetDecoder(topk=100)(peaks, sizes, shifts)
    found = detections.of_answer(CODER, answer, SIZE).asnumpy()
    np.testing.assert_array_equal(found[:, :, 0], classes.asnumpy())
    np.testing.assert_allclose(found[:, :, 1], scores.asnumpy(), rtol=1e-5)
    np.testing.assert_allclose(found[:, :, 2:], np.clip(boxes.asnumpy(), 0, cases.SIDE), atol=1e-3)


def test_a_size_that_the_map_does_not_fit_is_refused() -> None:
    with pytest.raises(
        UsageError, match="--image-size 100x96: --model center_net_resnet18_v1b_voc takes multiples"
    ):
        detectors.coder("center_net_resnet18_v1b_voc", 3, Size(100, 96))
