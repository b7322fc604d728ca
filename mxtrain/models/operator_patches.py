"""Replacements for operators of MXNet 1.9.1 whose backward pass crashes or is wrong.

Owns two patches of Gluon, both for the whole process: PReLU, the gradient of whose slope is wrong, and concat, whose
gradient oneDNN may be unable to split. Patches that mixed precision needs are `optim/precision.py`'s.

Concat: oneDNN keeps its gradient in blocks of 16 channels if their sum allows it. Inputs that are no whole blocks
cannot be cut from that: the backward pass ends with "could not construct a sub-memory" (inputs of 24 channels), or the
process with SIGFPE (inputs of 8). A concat of arrays with one more axis is MXNet's own and has no blocks.

PReLU: in a compiled net MXNet lets the gradient of the input overwrite that of the output before it computes the
slope's from it. The slope's gradient so comes out multiplied by the slope: 0.25 of what it should be at first, and 0
for good at 0.
"""

from __future__ import annotations

import functools
import json
from typing import Any, Mapping, Sequence

from mxtrain.runtime import mx

BLOCK = 16  # oneDNN's channels in a block with AVX-512; with less it is 8
CHANNELS, NUM_AXES = 1, 4  # of a batch of pictures; a new axis comes after its last

Graph = Mapping[str, Any]  # a Symbol's JSON, as MXNet writes it
Shape = Sequence[int]


def patch_prelu() -> None:
    """Make Gluon's PReLU compute the right gradient of its slope."""
    mx.gluon.nn.PReLU.hybrid_forward = _prelu_forward


def _prelu_forward(self: Any, F: Any, x: Any, alpha: Any) -> Any:
    """Compute PReLU by two nodes, one for the gradient of the input and one, whose value is 0, for the slope's."""
    output = F.LeakyReLU(x, F.BlockGrad(alpha), act_type="prelu")
    for_slope = F.LeakyReLU(F.BlockGrad(x), alpha, act_type="prelu")
    return output + (for_slope - F.BlockGrad(for_slope))


def patch_concat() -> None:
    """Make HybridBlocks build their graphs for CPUs without concats whose backward pass crashes."""
    build = mx.gluon.HybridBlock._get_graph
    if hasattr(build, "__wrapped__"):
        return

    @functools.wraps(build)
    def get_graph(self: Any, *args: Any) -> Any:
        is_new = not self._cached_graph
        inputs, output = build(self, *args)
        if is_new and all(
            isinstance(arg, mx.nd.NDArray) and arg.context.device_type == "cpu" for arg in args
        ):
            shapes = {symbol.name: arg.shape for symbol, arg in zip(inputs, args)}
            self._cached_graph = inputs, _without_unaligned_concats(output, shapes)
        return self._cached_graph

    mx.gluon.HybridBlock._get_graph = get_graph


def _without_unaligned_concats(output: Any, input_shapes: Mapping[str, Shape]) -> Any:
    """Return a Symbol that computes what `output` does."""
    graph, internals = json.loads(output.tojson()), output.get_internals()
    _, shapes, _ = internals.infer_shape_partial(**input_shapes)
    unaligned = unaligned_concats(graph, dict(zip(internals.list_outputs(), shapes or [])))
    return mx.sym.load_json(json.dumps(with_new_axis(graph, unaligned))) if unaligned else output


def unaligned_concats(graph: Graph, shapes: Mapping[str, Shape]) -> list[int]:
    """Return the positions of nodes that join pictures' channels and take other than whole blocks.

    `shapes` are those of the nodes' outputs, by name.
    """

    def shape_of(source: int, output: int) -> Shape:
        name = graph["nodes"][source]["name"]
        # The name of a variable, of an operator's only output, of one of several outputs.
        names = (name, f"{name}_output", f"{name}_output{output}")
        return next((shapes[each] for each in names if each in shapes), ())

    return [
        position
        for position, node in enumerate(graph["nodes"])
        if node["op"] == "Concat"
        and any(_is_unaligned(node, shape_of(*entry[:2])) for entry in node["inputs"])
    ]


def _is_unaligned(concat: Mapping[str, Any], input_shape: Shape) -> bool:
    axis = int(concat.get("attrs", {}).get("dim", CHANNELS))
    return (
        len(input_shape) == NUM_AXES
        and axis in (CHANNELS, CHANNELS - len(input_shape))
        and input_shape[CHANNELS] % BLOCK != 0
    )


def with_new_axis(graph: Graph, positions: Sequence[int]) -> Graph:
    """Return the graph with the concats at `positions` joining arrays that have one more axis, of length 1."""
    nodes: list[dict[str, Any]] = []
    new_positions: list[int] = []  # of the node that has each old node's output

    def add(node: Mapping[str, Any], **changes: Any) -> int:
        nodes.append({**node, **changes})
        return len(nodes) - 1

    for position, node in enumerate(graph["nodes"]):
        inputs = [[new_positions[source], *rest] for source, *rest in node["inputs"]]
        if position not in positions:
            new_positions.append(add(node, inputs=inputs))
            continue
        axis, name = {"axis": str(NUM_AXES)}, node["name"]
        parts = [
            add({"op": "expand_dims", "name": f"{name}_part{number}", "attrs": axis, "inputs": [part]})
            for number, part in enumerate(inputs)
        ]
        dim = {**node["attrs"], "dim": str(CHANNELS)}
        joined = add(node, attrs=dim, name=f"{name}_parts", inputs=[[part, 0, 0] for part in parts])
        new_positions.append(add({"op": "squeeze", "name": name, "attrs": axis, "inputs": [[joined, 0, 0]]}))
    return {
        "nodes": nodes,
        "arg_nodes": [new_positions[position] for position in graph["arg_nodes"]],
        "heads": [[new_positions[position], *rest] for position, *rest in graph["heads"]],
        "attrs": graph["attrs"],
    }
