"""The graph of a net as a model of ONNX.

Owns the way from node to node, names and shapes of inputs and outputs, and naming an operator that has no translation,
with its layer. What becomes of an operator is in `onnx_operators.py`, `onnx_layers.py` and `onnx_sequences.py`; why
mx.onnx is not used is in docs/adr/0036-onnx.md.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import json
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

import numpy as np

from mxtrain.core import params_file
from mxtrain.core.errors import UsageError
from mxtrain.data.fields import Array
from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.export.onnx.onnx_layers import LAYERS
from mxtrain.export.onnx.onnx_node import UNKNOWN, ModelParts, Node, Shape
from mxtrain.export.onnx.onnx_operators import OPERATORS
from mxtrain.export.onnx.onnx_sequences import SEQUENCES
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.runtime import mx

if TYPE_CHECKING:
    from mxtrain.runtime.types import NDArray, Symbol

OPSET, IR_VERSION = 13, 8  # onnxruntime reads them from 1.12 (2022) on; so do servers of that time
BATCH = "batch"  # the name of an axis of any length
TRANSLATIONS = {**OPERATORS, **LAYERS, **SEQUENCES}
Tensor = Callable[[Array, str], Any]


def load(module: str) -> Any:
    """Return onnx or onnxruntime; UsageError with what to install where it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"--to onnx needs {module}, which is not here ({error}): pip install 'mxtrain[export]', or pip install "
            "onnx onnxruntime"
        ) from None


def convert(graph: InferenceGraph, batch: int | None, tensor: Tensor | None = None) -> Any:
    """Return the ModelProto of a graph for batches of this many samples; None for any number.

    `tensor` makes a TensorProto of an array and its name; without it the array is in that.
    """
    graph = graph._replace(symbol=_with_unique_names(graph.symbol))
    nodes = json.loads(graph.symbol.tojson())
    _refuse_unknown(graph, nodes["nodes"])
    model = ModelParts(load("onnx"))
    shapes = _Shapes(graph, batch)
    weights = params_file.joined(graph.arguments, graph.auxiliaries)
    made: list[Sequence[str]] = []  # what the model calls the outputs of each node
    for place, node in enumerate(nodes["nodes"]):
        if node["op"] == "null":
            if node["name"] in weights:
                model.arrays[node["name"]] = functools.partial(_numbers, weights, node["name"])
            made.append([node["name"]])
            continue
        written = TRANSLATIONS[node["op"]](
            Node(
                operator=node["op"],
                name=node["name"],
                inputs=[made[source][output] for source, output, *_ in node["inputs"]],
                attributes=node.get("attrs", {}),
                shapes=[shapes.of(source, output) for source, output, *_ in node["inputs"]],
                output=shapes.of(place, 0),
                model=model,
            )
        )
        made.append([written] if isinstance(written, str) else written)
    outputs = [made[source][output] for source, output, *_ in nodes["heads"]]
    return _model(graph, model, outputs, batch, tensor or model.onnx.numpy_helper.from_array)


def _numbers(arrays: Mapping[str, NDArray], name: str) -> Array:
    return arrays[name].asnumpy()


def output_names(graph: InferenceGraph) -> list[str]:
    """Return what the outputs are called in an export."""
    return (
        ["output"] if len(graph.outputs) == 1 else [f"output{number}" for number in range(len(graph.outputs))]
    )


def _with_unique_names(symbol: Symbol) -> Any:
    """Return the graph with a name of its own for each operator: a layer that is called twice has two of one name."""
    whole = json.loads(symbol.tojson())
    taken = {node["name"] for node in whole["nodes"] if node["op"] == "null"}
    for node in whole["nodes"]:
        if node["op"] != "null":
            names = (f"{node['name']}{number or ''}" for number in itertools.count())
            node["name"] = next(name for name in names if name not in taken)
            taken.add(node["name"])
    return mx.sym.load_json(json.dumps(whole))


def _refuse_unknown(graph: InferenceGraph, nodes: Sequence[Mapping[str, Any]]) -> None:
    """Refuse operators without a translation, each with the first layer that has it."""
    unknown = {
        node["op"]: node["name"] for node in reversed(nodes) if node["op"] not in {*TRANSLATIONS, "null"}
    }
    if unknown:
        operators = ", ".join(f"{operator} (layer {name})" for operator, name in unknown.items())
        raise UsageError(
            f"{graph.name}: there is no translation to ONNX of the operator {operators}; --to symbol exports the net "
            "for MXNet"
        )


class _Shapes:
    """The shapes of all nodes' outputs, with UNKNOWN for what the number of samples decides."""

    def __init__(self, graph: InferenceGraph, batch: int | None):
        one, other = (batch, batch) if batch else (2, 3)
        self._graph, self._one = graph_rewrites.nodes_and_shapes(graph.symbol, graph.shapes_of(one))
        self._other = graph_rewrites.nodes_and_shapes(graph.symbol, graph.shapes_of(other))[1]

    def of(self, place: int, output: int) -> Shape:
        """Return the shape of an output of the node at a place."""
        one, other = (
            graph_rewrites.shape_of(self._graph, shapes, place, output) for shapes in (self._one, self._other)
        )
        return [first if first == second else UNKNOWN for first, second in zip(one, other)]


def _model(
    graph: InferenceGraph, written: ModelParts, outputs: Sequence[str], batch: int | None, tensor: Tensor
) -> Any:
    """Return the model of written nodes; its outputs, unlike weights, have the names of `output_names`."""
    onnx, first = written.onnx, BATCH if batch is None else batch
    helper = onnx.helper
    input_type = helper.np_dtype_to_tensor_dtype(np.dtype(graph.takes))
    names = output_names(graph)
    ends = [helper.make_node("Identity", [source], [name], name=name) for source, name in zip(outputs, names)]
    nodes = [*written.nodes, *ends]
    used = {name for node in nodes for name in node.input}
    weights = [
        tensor(np.asarray(array(), order="C"), name) for name, array in written.arrays.items() if name in used
    ]
    described = [
        [helper.make_tensor_value_info(name, each, [first, *shape]) for name, shape in pairs]
        for each, pairs in (
            (input_type, graph.inputs.items()),
            (onnx.TensorProto.FLOAT, zip(names, graph.outputs.values())),
        )
    ]
    whole = helper.make_graph(nodes, "mxtrain", *described, weights)
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="mxtrain")
    model.ir_version = IR_VERSION
    return model
