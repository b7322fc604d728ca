"""A detector's boxes.onnx answers to any number of pictures with the detections of the net."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.core.errors import DataError
from mxtrain.data.fields import Array
from mxtrain.export import inference_graph
from mxtrain.export.onnx import onnx_boxes
from mxtrain.runtime import mx
from mxtrain.tasks.detection import Detection
from mxtrain.train.net import build_net

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
PICTURES, SIDE = 3, 96


def task_of(name: str) -> Detection:
    flags = ["--train", "t.rec", "--task", "detection", "--model", name, "--image-size", str(SIDE)]
    return Detection(config.parse(flags), {"class_names": ["a", "b", "c"]})


def exported(name: str, folder: Path, wrong: float = 1.0) -> tuple[Detection, Any, Array]:
    """Write the file of a net with random weights; return its task, its net and some pictures."""
    task = task_of(name)
    pictures = np.random.default_rng(0).normal(0, 3, (PICTURES, 3, SIDE, SIDE)).astype(np.float32)
    with build_net.compiling("off"):
        net = build_net.build_to_train(task, [mx.cpu()]).net
        graph = inference_graph.of_net(net, task)
        compared = (lambda data: net(data) * wrong), [{"data": pictures}]
        apart = onnx_boxes.write(graph, task, *compared, folder, None, {"task": "detection"})
        answer = net(mx.nd.array(pictures))
    assert apart < onnx_boxes.TOLERANCE
    return task, answer, pictures


@pytest.mark.parametrize(
    "name",
    [
        "ssd_300_mobilenet0.25_voc",
        pytest.param("yolo3_mobilenet0.25_voc", marks=pytest.mark.slow),
        pytest.param("center_net_mobilenetv3_small_duc_voc", marks=pytest.mark.slow),
    ],
)
def test_boxes_are_those_of_the_net(name: str, tmp_path: Path) -> None:
    task, answer, pictures = exported(name, tmp_path)
    wanted = task.detected(answer).asnumpy()
    session = runtime.InferenceSession(str(tmp_path / onnx_boxes.MODEL), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"data": pictures})
    assert_same(wanted, found)


def assert_same(wanted: Array, found: Array) -> None:
    """Compare the likeliest detections of each picture with rows of an export, in whatever order these are."""
    for number, picture in enumerate(wanted):
        picture = picture[picture[:, 0] >= 0]
        own = found[found[:, 0] == number, 1:]
        own = own[np.argsort(-own[:, 1], kind="stable")][: onnx_boxes.detections.MOST]
        assert len(picture) == len(own) > 10
        apart = np.abs(picture[:, None] - own[None]) / [1, 1, SIDE, SIDE, SIDE, SIDE]
        assert apart.max(axis=2).min(axis=1).max() < onnx_boxes.TOLERANCE


def test_other_boxes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="are not the net's"):
        exported("ssd_300_mobilenet0.25_voc", tmp_path, wrong=1.01)


@pytest.mark.parametrize("seed", range(10))
def test_what_suppression_leaves_is_the_same(seed: int, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    task, rng = task_of("ssd_300_mobilenet0.25_voc"), np.random.default_rng(seed)
    scores = rng.random((PICTURES, 600, 3)).astype(np.float32) ** 4
    low = rng.uniform(-10, SIDE, (PICTURES, 600, 2))
    boxes = np.concatenate([low, low + rng.uniform(4, 50, low.shape)], axis=2).astype(np.float32)
    ends = [
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", *array.shape[1:]])]
        for name, array in (("scores", scores), ("boxes", boxes))
    ]
    passed = [onnx.helper.make_node("Identity", [name], [f"{name}_out"]) for name in ("scores", "boxes")]
    outputs = [
        onnx.helper.make_tensor_value_info(f"{name}_out", onnx.TensorProto.FLOAT, ["n", *array.shape[1:]])
        for name, array in (("scores", scores), ("boxes", boxes))
    ]
    graph = onnx.helper.make_graph(passed, "suppression", ends[0] + ends[1], outputs)
    onnx_boxes.suppress(onnx, graph, task)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    model.ir_version = 8
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"scores": scores, "boxes": boxes})
    candidates = onnx_boxes.detections.Candidates(mx.nd.array(scores), mx.nd.array(boxes))
    assert_same(
        onnx_boxes.detections.of_candidates(candidates, task.coder.overlap, task.size).asnumpy(), found
    )
