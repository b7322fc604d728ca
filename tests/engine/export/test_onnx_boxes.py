"""A detector's boxes.onnx answers to any number of pictures with the detections of the net."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mxtrain import config
from mxtrain.core.errors import DataError
from mxtrain.export import inference_graph
from mxtrain.export.onnx import onnx_boxes
from mxtrain.runtime import mx
from mxtrain.tasks.detection import Detection
from mxtrain.train.net import build_net

PICTURES, SIDE = 3, 96


@pytest.mark.parametrize(
    "name",
    [
        "ssd_300_mobilenet0.25_voc",
        pytest.param("yolo3_mobilenet0.25_voc", marks=pytest.mark.slow),
        pytest.param("center_net_mobilenetv3_small_duc_voc", marks=pytest.mark.slow),
    ],
)
def test_boxes_are_those_of_the_net(name: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    flags = ["--train", "t.rec", "--task", "detection", "--model", name, "--image-size", str(SIDE)]
    task = Detection(config.parse(flags), {"class_names": ["a", "b", "c"]})
    pictures = np.random.default_rng(0).normal(0, 3, (PICTURES, 3, SIDE, SIDE)).astype(np.float32)
    with build_net.compiling("off"):
        net = build_net.build_to_train(task, [mx.cpu()]).net
        graph = inference_graph.of_net(net, task)
        assert onnx_boxes.write(graph, task, tmp_path, None, {"task": "detection"}) == onnx_boxes.MODEL
        apart = onnx_boxes.refuse_other_boxes(tmp_path, task, net, [{"data": pictures}], None)
        wanted = task.detected(net(mx.nd.array(pictures))).asnumpy()
    assert apart < onnx_boxes.TOLERANCE
    session = runtime.InferenceSession(str(tmp_path / onnx_boxes.MODEL), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"data": pictures})
    for number, picture in enumerate(wanted):
        own = found[found[:, 0] == number, 1:]
        own = own[np.argsort(-own[:, 1], kind="stable")][: len(picture)]
        picture = picture[picture[:, 0] >= 0]
        assert len(picture) == len(own) > 10
        np.testing.assert_allclose(own[:, 1], picture[:, 1], atol=1e-5)


def test_other_boxes_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    flags = ["--train", "t.rec", "--task", "detection", "--model", "ssd_300_mobilenet0.25_voc"]
    task = Detection(config.parse([*flags, "--image-size", str(SIDE)]), {"class_names": ["a", "b"]})
    pictures = np.random.default_rng(0).normal(0, 3, (1, 3, SIDE, SIDE)).astype(np.float32)
    with build_net.compiling("off"):
        net = build_net.build_to_train(task, [mx.cpu()]).net
        onnx_boxes.write(inference_graph.of_net(net, task), task, tmp_path, 1, {})
        with pytest.raises(DataError, match="are not the net's"):
            onnx_boxes.refuse_other_boxes(
                tmp_path, task, lambda data: net(data) * 1.01, [{"data": pictures}], 1
            )
