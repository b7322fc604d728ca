"""A net of pixels as a file of ONNX that answers with the class of each, in full size, without its auxiliary head.

Beside the net's own file (`onnx_export.py`), which answers as the net does. Owns the nodes behind the net, and the
comparison of what they say of each pixel with what the task says; the likeliest of classes as likely as each other in
all digits but the last may be another.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.export import comparison
from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.export.onnx import onnx_export, onnx_graph
from mxtrain.export.real_samples import Batch
from mxtrain.models.segmenters.upsampling import upsampled_like
from mxtrain.runtime import mx
from mxtrain.tasks.segmentation import Segmentation

MODEL = "masks.onnx"
TOLERANCE = 1e-4  # of the largest number that is said of any class


def write(
    graph: InferenceGraph,
    task: Segmentation,
    net: Any,
    batches: Sequence[Batch],
    folder: Path,
    batch: int | None,
    metadata: Mapping[str, Any],
) -> float:
    """Write the file, and return how far what it says of pixels is from the net's; DataError beyond TOLERANCE."""
    onnx = onnx_graph.load("onnx")
    model = onnx_graph.convert(_whole(graph, len(task.class_names)), batch)
    apart = _apart(model, task, net, batches, batch)
    comparison.refuse_apart(TOLERANCE, apart, f"the masks of the onnx export of {graph.name}")
    _answer_with_classes(onnx, model.graph)
    onnx_export.save(model, folder / MODEL, metadata, "the masks of the onnx export are")
    return apart


def _whole(graph: InferenceGraph, num_classes: int) -> InferenceGraph:
    """Return the graph with what is said of each class in each pixel as its output."""
    _, shapes, _ = graph.symbol.infer_shape(**graph.shapes_of(1))
    own = graph.symbol if shapes[0][1] == num_classes else graph.symbol.get_children()[0]
    symbol = upsampled_like(mx.sym, own, mx.sym.var(next(iter(graph.inputs))))
    _, shapes, _ = symbol.infer_shape(**graph.shapes_of(1))
    outputs = {name: shape[1:] for name, shape in zip(symbol.list_outputs(), shapes)}
    names = {*symbol.list_arguments(), *symbol.list_auxiliary_states()}
    kept = [
        {name: each[name] for name in each if name in names} for each in (graph.arguments, graph.auxiliaries)
    ]
    return graph._replace(symbol=symbol, arguments=kept[0], auxiliaries=kept[1], outputs=outputs)


def _answer_with_classes(onnx: Any, proto: Any) -> None:
    """Let the likeliest class of each pixel, as bytes, be the output of a graph that says something of each class."""
    (logits,) = proto.output
    sizes = [each.dim_param or each.dim_value for each in logits.type.tensor_type.shape.dim]
    make = onnx.helper.make_node
    proto.node.append(make("ArgMax", [logits.name], ["masks/best"], "masks/best", axis=1, keepdims=0))
    proto.node.append(make("Cast", ["masks/best"], ["masks"], "masks/bytes", to=onnx.TensorProto.UINT8))
    del proto.output[:]
    shape = [sizes[0], *sizes[2:]]
    proto.output.append(onnx.helper.make_tensor_value_info("masks", onnx.TensorProto.UINT8, shape))


def _apart(model: Any, task: Segmentation, net: Any, batches: Sequence[Batch], batch: int | None) -> float:
    answer, apart = onnx_export.answer_of(model.SerializeToString(), batch), 0.0
    logits = task.plain_forward().logits
    for inputs in batches:
        (data,) = inputs.values()
        wanted: Array = logits(net, mx.nd.array(data)).asnumpy()
        (found,) = answer(inputs)
        apart = max(apart, float(np.abs(wanted - found).max() / max(1.0, np.abs(wanted).max())))
    return apart
