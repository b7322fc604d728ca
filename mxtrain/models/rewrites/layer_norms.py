"""LayerNorms whose backward pass is fast on a CPU.

MXNet's goes back through general reductions and broadcasts, which took 33 of the 229 ms of a small GPT's step. An
operator of ours reads each row once, and writes nothing that is not asked for. Without the part in C the sums of rows
and the broadcasts along them are products with ones, which the BLAS library computes: forward and backward take a half
to a third of MXNet's time, and the forward pass alone twice as much. The variance is that of differences from the mean,
as MXNet's is, so that a large mean does not drown it.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Mapping

from mxtrain import native
from mxtrain.models.rewrites.graph_rewrites import (
    AddNode,
    Graph,
    Inputs,
    Replacement,
    Shapes,
    are_float32,
    gradient_copy,
    shape_of,
    with_replaced,
)
from mxtrain.runtime.own_operators import LAYER_NORM

FEWEST = 256  # numbers: with less, more operators cost more


def with_fast_layer_norms(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph without LayerNorms over last axes; `shapes` are those of the nodes' outputs."""
    places = range(len(graph["nodes"]))
    return with_replaced(graph, {place: _replacement(graph, shapes, place) for place in places})


def with_own_layer_norms(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph with our operator in such LayerNorms; without the part in C the same: it answers faster."""
    return graph if native.OPERATORS is None else with_fast_layer_norms(graph, shapes)


def _replacement(graph: Graph, shapes: Shapes, position: int) -> Replacement | None:
    """Return what replaces the node at `position`; None if it stays."""
    node = graph["nodes"][position]
    if node["op"] != "LayerNorm":
        return None
    attributes, (data, gamma, _) = node.get("attrs", {}), node["inputs"]
    shape = shape_of(graph, shapes, *data[:2])
    if (
        len(shape) < 2
        or shape[-1] == 1
        or int(attributes.get("axis", -1)) not in (-1, len(shape) - 1)
        or attributes.get("output_mean_var", "False") != "False"
        or math.prod(shape) < FEWEST
        or not are_float32(graph["nodes"][gamma[0]])  # LayerNorm takes data of the type of its weights only
    ):
        return None
    return functools.partial(_as_products, width=shape[-1]) if native.OPERATORS is None else _own


def _own(node: Mapping[str, Any], inputs: Inputs, add: AddNode) -> int:
    """Add our operator behind copies."""
    name, epsilon = node["name"], _epsilon(node)
    copies = [
        [add(gradient_copy(f"{name}_{role}", entry)), 0, 0]
        for role, entry in zip(("rows", "scales", "shifts"), inputs)
    ]
    return add({"op": LAYER_NORM, "name": name, "attrs": {"eps": epsilon}, "inputs": copies})


def _epsilon(node: Mapping[str, Any]) -> str:
    return str(node.get("attrs", {}).get("eps", "1e-05"))


def _as_products(node: Mapping[str, Any], inputs: Inputs, add: AddNode, width: int) -> int:
    """Add nodes that compute a LayerNorm over the last axis, of `width` numbers."""
    data, gamma, beta = inputs

    def operator(op: str, role: str, *entries: list[int], **attributes: str) -> list[int]:
        name = f"{node['name']}_{role}"
        return [add({"op": op, "name": name, "attrs": attributes, "inputs": list(entries)}), 0, 0]

    def row(entry: list[int], role: str) -> list[int]:
        return operator("Reshape", role, entry, shape="(1, -1)")

    ones = row(operator("ones_like", "ones", gamma), "row")
    sums = operator("dot", "sums", data, ones, transpose_b="True")
    # Minus is where each row has one number: a sum of large arrays goes back without a pass, a difference does not.
    minus_means = operator("_div_scalar", "minus_means", sums, scalar=str(-width))
    centred = operator("elemwise_add", "centred", data, operator("dot", "shifts", minus_means, ones))
    squares = operator("dot", "squares", operator("square", "square", centred), ones, transpose_b="True")
    variances = operator("_div_scalar", "variances", squares, scalar=str(width))
    inverses = operator(
        "rsqrt", "inverses", operator("_plus_scalar", "positive", variances, scalar=_epsilon(node))
    )
    scales = operator("dot", "scales", inverses, row(gamma, "gammas"))
    scaled = operator("elemwise_mul", "scaled", centred, scales)
    betas = operator("dot", "betas", operator("ones_like", "column", inverses), row(beta, "beta_row"))
    return add({"op": "elemwise_add", "name": node["name"], "attrs": {}, "inputs": [scaled, betas]})
