"""A net's masks.onnx answers to any number of pictures with the classes of the net, without its auxiliary head."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mxtrain import config
from mxtrain.core.errors import DataError
from mxtrain.export import inference_graph
from mxtrain.export.onnx import onnx_masks
from mxtrain.runtime import mx
from mxtrain.tasks.segmentation import Segmentation
from mxtrain.train.net import build_net
from tests.support.breadth import slow_cases

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
SIDE = 64


@pytest.mark.parametrize(
    "name",
    [
        "fastscnn_citys",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in (
                "fcn_resnet50_voc",
                "psp_resnet50_ade",
                "deeplab_resnet50_ade",
                "deeplab_plus_xception_coco",
            )
        ),
    ],
)
@pytest.mark.parametrize("aux_weight", ["0.5", *slow_cases("0")])
def test_masks_are_those_of_the_net(name: str, aux_weight: str, tmp_path: Path) -> None:
    flags = ["--train", "t.rec", "--task", "segmentation", "--model", name, "--image-size", str(SIDE)]
    task = Segmentation(config.parse([*flags, "--aux-weight", aux_weight]), {"class_names": ["a", "b", "c"]})
    data = np.random.default_rng(0).normal(0, 1, (3, 3, SIDE, SIDE)).astype(np.float32)
    with build_net.compiling("off"):
        net = build_net.build_to_train(task, [mx.cpu()]).net
        graph = inference_graph.of_net(net, task)
        writing = graph, task, net, [{"data": data}], tmp_path, None, {"task": "segmentation"}
        assert onnx_masks.write(*writing) < onnx_masks.TOLERANCE
        logits = task.plain_forward().logits(net, mx.nd.array(data)).asnumpy()
        with pytest.raises(DataError, match="are not the net's"):
            onnx_masks.write(graph, task, lambda each: net(each) * 1.1, *writing[3:])
    session = runtime.InferenceSession(str(tmp_path / onnx_masks.MODEL), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"data": data})
    assert found.dtype == np.uint8 and found.shape == (3, SIDE, SIDE)
    best = np.sort(logits, axis=1)
    is_clear = best[:, -1] - best[:, -2] > 1e-4 * np.abs(logits).max()
    assert (found == logits.argmax(axis=1))[is_clear].all() and is_clear.mean() > 0.9
    (one,) = session.run(None, {"data": data[:1]})
    assert (one[0] == found[0])[is_clear[0]].all()
    names = {
        each.name for each in __import__("onnx").load(str(tmp_path / onnx_masks.MODEL)).graph.initializer
    }
    assert not any("auxlayer" in each for each in names)
