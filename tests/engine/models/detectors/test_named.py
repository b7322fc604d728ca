"""Every detector by name is built, and learns a step at the size that it is made for."""

from __future__ import annotations

import numpy as np
import pytest

from mxtrain import config
from mxtrain.config.components.zoo import detector_names
from mxtrain.runtime import mx
from mxtrain.tasks.detection import Detection
from mxtrain.train.net import build_net


def test_names_are_those_of_gluoncv() -> None:
    from mxtrain import runtime

    named = set()
    for family, module in (
        ("ssd", "ssd.presets"),
        ("yolo3", "yolo.yolo3"),
        ("center_net", "center_net.center_net"),
    ):
        every = vars(runtime.load_gluoncv_module(f"gluoncv.model_zoo.{module}"))
        named |= {
            name
            for name in every
            if name.startswith(f"{family}_") and name.endswith(("voc", "coco", "custom"))
        }
    functions = {detector_names.function_of(name)[1] for name in detector_names.DETECTORS}
    # Of resnet18 GluonCV has no `custom` in its table of names.
    assert named - functions == {"ssd_512_resnet18_v1_custom"} and functions <= named


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [name for name in detector_names.DETECTORS if "dcnv2" not in name])
def test_a_step_is_learnt(name: str) -> None:
    run = config.parse(["--train", "t.rec", "--task", "detection", "--model", name, "--micro-batch", "1"])
    task = Detection(run, {"class_names": ["a", "b", "c"]})
    side = detector_names.image_size_of(name)
    assert run.data.image_size == side
    boxes = np.full((1, 8, 6), -1, np.float32)
    boxes[0, :2] = [[0.1, 0.1, 0.5, 0.4, 1, 0], [0.3, 0.5, 0.9, 0.8, 2, 0]]
    boxes[0, :2, :4] *= side
    arrays = {"data": mx.nd.random.normal(shape=(1, 3, side, side)), "boxes": mx.nd.array(boxes)}
    with build_net.compiling("off"):
        net = build_net.build_to_train(task, [mx.cpu()]).net
        with mx.autograd.record():
            outcome = task.training_forward(None)(net, arrays)
        outcome.losses.backward()
        gradients = [each.grad() for each in net.collect_params().values() if each.grad_req != "null"]
        assert all(np.isfinite(each.asnumpy()).all() for each in gradients)
        assert sum(bool(each.asnumpy().any()) for each in gradients) > 0.6 * len(gradients)
        judged = task.plain_forward()(net, arrays)
    assert outcome.weight > 0 and np.isfinite(outcome.losses.asnumpy()).all()
    assert judged.output.shape == (1, 100, 6)
