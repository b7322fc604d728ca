"""Rewriting of the graphs that Gluon compiles nets from, in JSON as MXNet writes it.

Owns where rewrites take place, for the whole process, and replacing nodes; what replaces what is `concats.py`'s,
`clips.py`'s and `plain_arrays.py`'s. A rewritten graph has the same parameters, values and names of outputs.
"""

from __future__ import annotations

import functools
import json
from typing import Any, Callable, Dict, List, Mapping, Sequence

from mxtrain.runtime import mx

Graph = Mapping[str, Any]
Shape = Sequence[int]
Shapes = Mapping[str, Shape]  # of the nodes' outputs, by their names
Inputs = List[List[int]]  # of a node: each the position of a node, and the number of its output
AddNode = Callable[[Dict[str, Any]], int]
Rewrite = Callable[[Graph, Shapes], Graph]
# Takes a node and its inputs in the new graph, adds nodes, and returns the position of the one with the output.
Replacement = Callable[[Mapping[str, Any], Inputs, AddNode], int]


def rewrite_graphs(rewrites: Sequence[Rewrite]) -> None:
    """Make HybridBlocks that compute on CPUs compile what `rewrites`, one after the other, make of their graphs."""
    build = getattr(mx.gluon.HybridBlock._get_graph, "__wrapped__", mx.gluon.HybridBlock._get_graph)

    @functools.wraps(build)
    def get_graph(self: Any, *args: Any) -> Any:
        is_new = not self._cached_graph
        inputs, output = build(self, *args)
        if is_new and all(
            isinstance(arg, mx.nd.NDArray) and arg.context.device_type == "cpu" for arg in args
        ):
            shapes = {symbol.name: arg.shape for symbol, arg in zip(inputs, args)}
            self._cached_graph = inputs, rewritten(output, shapes, rewrites)
        return self._cached_graph

    mx.gluon.HybridBlock._get_graph = get_graph


def rewritten(output: Any, input_shapes: Shapes, rewrites: Sequence[Rewrite]) -> Any:
    """Return a Symbol that computes what `output` does."""
    internals = output.get_internals()
    _, shapes, _ = internals.infer_shape_partial(**input_shapes)
    by_name = dict(
        zip(internals.list_outputs(), shapes or [])
    )  # a rewrite keeps the names of what it replaces
    before = json.loads(
        output.tojson(remove_amp_cast=False)
    )  # else a net for bfloat16 becomes one in float32
    after = functools.reduce(lambda graph, rewrite: rewrite(graph, by_name), rewrites, before)
    return output if after is before else mx.sym.load_json(json.dumps(after))


def shape_of(graph: Graph, shapes: Shapes, source: int, output: int) -> Shape:
    """Return the shape of an output of the node at `source`; an empty one where it is not known."""
    name = graph["nodes"][source]["name"]
    # The name of a variable, of an operator's only output, of one of several outputs.
    names = (name, f"{name}_output", f"{name}_output{output}")
    return next((shapes[each] for each in names if each in shapes), ())


def with_replaced(graph: Graph, replacements: Mapping[int, Replacement | None]) -> Graph:
    """Return the graph with what `replacements` make of the nodes at their positions; the same one without any."""
    if not any(replacements.values()):
        return graph
    nodes: list[dict[str, Any]] = []
    new_positions: list[int] = []  # of the node that has each old node's output

    def add(node: dict[str, Any]) -> int:
        nodes.append(node)
        return len(nodes) - 1

    for position, node in enumerate(graph["nodes"]):
        inputs = [[new_positions[source], *rest] for source, *rest in node["inputs"]]
        replace = replacements.get(position)
        new_positions.append(replace(node, inputs, add) if replace else add({**node, "inputs": inputs}))
    return {
        "nodes": nodes,
        "arg_nodes": [new_positions[position] for position in graph["arg_nodes"]],
        "heads": [[new_positions[position], *rest] for position, *rest in graph["heads"]],
        "attrs": graph["attrs"],
    }
