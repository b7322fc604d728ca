"""Every net of pixels by name learns a step."""

from __future__ import annotations

import numpy as np
import pytest

from mxtrain import config
from mxtrain.config.components.zoo.segmenter_names import SEGMENTERS
from mxtrain.runtime import mx
from mxtrain.tasks.segmentation import Segmentation
from mxtrain.train.net import build_net

IN_TURN = [
    pytest.param(each, marks=() if each == "fastscnn_citys" else pytest.mark.slow) for each in SEGMENTERS
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", IN_TURN)
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
