"""Hard sigmoids in one operator: relu6(x + 3) / 6, as mobilenetv3 and its kin write it, is five of MXNet's.

MXNet's own hard_sigmoid computes the same but for rounding, 1e-7 of its value, in 0.35 of the time. Its gradient at
exactly 0 and 1 is 0, where a clip's is that of the numbers between.
"""

from __future__ import annotations

import functools
from typing import Any, Mapping

from mxtrain.models.rewrites.graph_rewrites import (
    AddNode,
    Graph,
    Inputs,
    Replacement,
    Shapes,
    users_of,
    with_replaced,
)


def with_hard_sigmoids(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph with one operator for each sum, clip to [0, width] and quotient by that width."""
    nodes, users = graph["nodes"], users_of(graph)
    kept = {position for position, *_ in graph["heads"]} | {each for each in users if len(users[each]) > 1}
    replacements: dict[int, Replacement | None] = {}
    for quotient, node in enumerate(nodes):
        if node["op"] != "_div_scalar":
            continue
        clip = node["inputs"][0][0]
        plus, width = (nodes[clip]["inputs"] or [[clip]])[0][0], _scalar(node)
        if not _is_clip(nodes[clip], width) or not _is_sum(nodes[plus]) or kept & {clip, plus}:
            continue
        replace = functools.partial(_hard_sigmoid, alpha=1 / width, beta=_scalar(nodes[plus]) / width)
        replacements.update({plus: _nothing, clip: _nothing, quotient: replace})
    return with_replaced(graph, replacements)


def _scalar(node: Mapping[str, Any]) -> float:
    return float(node["attrs"]["scalar"])


def _is_sum(node: Mapping[str, Any]) -> bool:
    """Return whether this adds a scalar to its source's first output, the one that a replaced node passes on."""
    return bool(node["op"] == "_plus_scalar" and node["inputs"][0][1] == 0)


def _is_clip(node: Mapping[str, Any], width: float) -> bool:
    return (
        node["op"] == "clip" and float(node["attrs"]["a_min"]) == 0 < float(node["attrs"]["a_max"]) == width
    )


def _nothing(node: Mapping[str, Any], inputs: Inputs, add: AddNode) -> int:
    """Return what goes into the operator."""
    return inputs[0][0]


def _hard_sigmoid(node: Mapping[str, Any], inputs: Inputs, add: AddNode, alpha: float, beta: float) -> int:
    attributes = {"alpha": repr(alpha), "beta": repr(beta)}
    return add({"op": "hard_sigmoid", "name": node["name"], "attrs": attributes, "inputs": inputs})
