"""A detector as a file of ONNX that answers with boxes: the net, what its answer says, and suppression inside.

Beside the net's own file (`onnx_export.py`), which answers as the net does. Owns the nodes behind the net, and the
comparison of all candidates with those of the task. Which of them suppression leaves is compared by tests: of boxes
that are as likely as each other in all digits but the last, either may stay.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np

from mxtrain.export import comparison
from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.export.onnx import onnx_export, onnx_graph
from mxtrain.export.real_samples import Batch
from mxtrain.models.detectors import detections
from mxtrain.models.detectors.detections import LEAST_SCORE, MOST_CANDIDATES
from mxtrain.runtime import mx
from mxtrain.tasks.detection import Detection

MODEL = "boxes.onnx"
COLUMNS = ("picture", "class", "score", "x1", "y1", "x2", "y2")
TOLERANCE = 1e-4  # of scores, and of places as shares of the picture's longer side


def write(
    graph: InferenceGraph,
    task: Detection,
    net: Any,
    batches: Sequence[Batch],
    folder: Path,
    batch: int | None,
    metadata: Mapping[str, Any],
) -> float:
    """Write the file, and return how far its candidates are from those of the net; DataError beyond TOLERANCE."""
    onnx = onnx_graph.load("onnx")
    model = onnx_graph.convert(_with_candidates(graph, task), batch)
    apart = _apart(model, task, net, batches, batch)
    comparison.refuse_apart(TOLERANCE, apart, f"the boxes of the onnx export of {graph.name}")
    suppress(onnx, model.graph, task)
    onnx_export.save(
        model, folder / MODEL, {**metadata, "columns": " ".join(COLUMNS)}, "the boxes of the onnx export are"
    )
    return apart


def _with_candidates(graph: InferenceGraph, task: Detection) -> InferenceGraph:
    """Return the graph with scores and boxes of all candidates as its outputs."""
    constants = task.coder.constants()
    variables = {
        name: mx.sym.var(f"candidates_{name}", shape=array.shape) for name, array in constants.items()
    }
    symbol = mx.sym.Group(list(task.coder.candidates(mx.sym, graph.symbol, variables)))
    arrays = {f"candidates_{name}": mx.nd.array(array) for name, array in constants.items()}
    _, shapes, _ = symbol.infer_shape(**graph.shapes_of(1))
    outputs = {name: shape[1:] for name, shape in zip(symbol.list_outputs(), shapes)}
    return graph._replace(symbol=symbol, arguments={**graph.arguments, **arrays}, outputs=outputs)


def suppress(onnx: Any, proto: Any, task: Detection) -> None:
    """Put suppression behind scores and boxes, the outputs of a graph, with rows of COLUMNS as its one output."""
    helper = onnx.helper
    scores, boxes = (output.name for output in proto.output)
    num_all = int(np.prod([each.dim_value for each in proto.output[0].type.tensor_type.shape.dim[1:]]))
    count = min(MOST_CANDIDATES, num_all)

    def constant(name: str, value: Any, dtype: Any) -> str:
        proto.initializer.append(onnx.numpy_helper.from_array(np.array(value, dtype), f"boxes/{name}"))
        return f"boxes/{name}"

    def node(operator: str, name: str, inputs: Sequence[str], **settings: Any) -> str:
        proto.node.append(helper.make_node(operator, inputs, [f"boxes/{name}"], f"boxes/{name}", **settings))
        return f"boxes/{name}"

    # Of each picture the likeliest candidates; what is less likely has a score of 0.
    flat = node("Reshape", "flat", [scores, constant("rows", [0, -1], np.int64)])
    number = constant("count", [count], np.int64)
    proto.node.append(
        helper.make_node("TopK", [flat, number], ["boxes/best", "boxes/places"], "boxes/best", axis=1)
    )
    least = node("ReduceMin", "least", ["boxes/best"], axes=[1], keepdims=1)
    least = node("Unsqueeze", "least_of_each", [least, constant("last", [2], np.int64)])
    is_likely = node("GreaterOrEqual", "is_likely", [scores, least])
    likely = node("Where", "likely", [is_likely, scores, constant("nothing", 0, np.float32)])
    by_class = node("Transpose", "by_class", [likely], perm=[0, 2, 1])
    limits = [
        constant("most", [count], np.int64),
        constant("overlap", [task.coder.overlap], np.float32),
        constant("least_score", [LEAST_SCORE], np.float32),
    ]
    left = node("NonMaxSuppression", "left", [boxes, by_class, *limits])  # picture, class, position
    where = node("Gather", "where", [left, constant("box_columns", [0, 2], np.int64)], axis=1)
    chosen = node("GatherND", "chosen", [boxes, where])
    inside = node("Max", "inside", [chosen, constant("zero", 0, np.float32)])
    ends = constant("ends", [task.size.width, task.size.height] * 2, np.float32)
    inside = node("Min", "cut", [inside, ends])
    score = node("GatherND", "scores", [by_class, left])
    score = node("Unsqueeze", "score", [score, constant("second", [1], np.int64)])
    names = node("Gather", "names", [left, constant("name_columns", [0, 1], np.int64)], axis=1)
    names = node("Cast", "numbers", [names], to=onnx.TensorProto.FLOAT)
    proto.node.append(
        helper.make_node("Concat", [names, score, inside], ["detections"], "detections", axis=1)
    )
    del proto.output[:]
    shape = ["detections", len(COLUMNS)]
    proto.output.append(helper.make_tensor_value_info("detections", onnx.TensorProto.FLOAT, shape))


def _apart(model: Any, task: Detection, net: Any, batches: Sequence[Batch], batch: int | None) -> float:
    """Return how far scores and boxes of a model are from the net's, the latter as shares of the longer side.

    Boxes are compared as far as they lie in the picture. A score of 0 is of a place that is no peak, which the last
    digit of its neighbour's decides.
    """
    answer, side, apart = onnx_export.answer_of(model.SerializeToString(), batch), max(task.size), 0.0
    for inputs in batches:
        said = mx.nd.array(comparison.answer_of_net(net, inputs)[0])
        wanted = [each.asnumpy() for each in detections.candidates_of(task.coder, said)]
        scores, boxes = zip(wanted, answer(inputs))
        of_scores = np.abs(scores[0] - scores[1]) * (scores[0] > 0) * (scores[1] > 0)
        inside = [np.clip(np.nan_to_num(each), 0, side) for each in boxes]
        apart = max(apart, float(of_scores.max()), float(np.abs(inside[0] - inside[1]).max()) / side)
    return apart
