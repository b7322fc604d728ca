"""Hard sigmoids in one operator: relu6(x + 3) / 6, as mobilenetv3 and its kin write it, is five of MXNet's.

MXNet's own hard_sigmoid computes the same but for rounding, 1e-7 of its value, in 0.35 of the time. Its gradient at
exactly 0 and 1 is 0, where a clip's is that of the numbers between.

MXNet writes that gradient where the gradient of its output is, though that may be another's too: of a sum with a weight
the weight's gradient was a wrong one. So it is used where its output is multiplied alone, whose gradients are its own.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Mapping, Sequence

from mxtrain.models.rewrites.graph_rewrites import (
    AddNode,
    Graph,
    Inputs,
    Replacement,
    Shapes,
    input_itself,
    outputs_of,
    users_of,
    with_replaced,
)

PRODUCTS = ("elemwise_mul", "broadcast_mul")
OF_SWISH = {"alpha": 1 / 6, "beta": 0.5}


def with_right_gradients(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph with operators of the same values for each of MXNet's that is not only multiplied."""
    users = users_of(graph)
    unsafe = [
        place
        for place, node in enumerate(graph["nodes"])
        if node["op"] == "hard_sigmoid" and not _is_multiplied(graph, users, place)
    ]
    return with_replaced(graph, dict.fromkeys(unsafe, _as_limited_line))


def with_hard_sigmoids(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph with one operator for each sum, clip to [0, width] and quotient by that width."""
    nodes, users = graph["nodes"], users_of(graph)
    kept = outputs_of(graph) | {each for each in users if len(users[each]) > 1}
    replacements: dict[int, Replacement | None] = {}
    for quotient, node in enumerate(nodes):
        if node["op"] != "_div_scalar" or not _is_multiplied(graph, users, quotient):
            continue
        clip = node["inputs"][0][0]
        plus, width = (nodes[clip]["inputs"] or [[clip]])[0][0], _scalar(node)
        if not _is_clip(nodes[clip], width) or not _is_sum(nodes[plus]) or kept & {clip, plus}:
            continue
        replace = functools.partial(_hard_sigmoid, alpha=1 / width, beta=_scalar(nodes[plus]) / width)
        replacements.update({plus: input_itself, clip: input_itself, quotient: replace})
    return with_replaced(graph, replacements)


def hard_swish(
    nodes: Sequence[Mapping[str, Any]], users: Sequence[int], only_user: Callable[[int], int | None]
) -> int | None:
    """Return the product of an output with its hard sigmoid, where these two are the `users` that take it."""
    if len(users) != 2:
        return None
    sigmoid, product = sorted(users)
    attributes = nodes[sigmoid].get("attrs", {})
    is_gate = (
        nodes[sigmoid]["op"] == "hard_sigmoid"
        and nodes[product]["op"] in PRODUCTS
        and only_user(sigmoid) == product
        and all(abs(float(attributes.get(name, -1)) - right) < 1e-6 for name, right in OF_SWISH.items())
    )
    return product if is_gate else None


def _is_multiplied(graph: Graph, users: Mapping[int, list[int]], place: int) -> bool:
    """Return whether products are all that takes what the node at `place` computes."""
    is_output = place in outputs_of(graph)
    return not is_output and all(graph["nodes"][user]["op"] in PRODUCTS for user in users.get(place, ()))


def _as_limited_line(node: Mapping[str, Any], inputs: Inputs, add: AddNode) -> int:
    name, attributes = node["name"], node.get("attrs", {})
    steps = (
        ("_mul_scalar", f"{name}_steep", attributes.get("alpha", "0.2")),
        ("_plus_scalar", f"{name}_line", attributes.get("beta", "0.5")),
        ("_minimum_scalar", f"{name}_most", "1"),
        ("_maximum_scalar", name, "0"),
    )
    for op, named, scalar in steps:
        inputs = [[add({"op": op, "name": named, "attrs": {"scalar": scalar}, "inputs": inputs}), 0, 0]]
    return inputs[0][0]


def _scalar(node: Mapping[str, Any]) -> float:
    return float(node["attrs"]["scalar"])


def _is_sum(node: Mapping[str, Any]) -> bool:
    """Return whether this adds a scalar to its source's first output, the one that a replaced node passes on."""
    return bool(node["op"] == "_plus_scalar" and node["inputs"][0][1] == 0)


def _is_clip(node: Mapping[str, Any], width: float) -> bool:
    return (
        node["op"] == "clip" and float(node["attrs"]["a_min"]) == 0 < float(node["attrs"]["a_max"]) == width
    )


def _hard_sigmoid(node: Mapping[str, Any], inputs: Inputs, add: AddNode, alpha: float, beta: float) -> int:
    attributes = {"alpha": repr(alpha), "beta": repr(beta)}
    return add({"op": "hard_sigmoid", "name": node["name"], "attrs": attributes, "inputs": inputs})
