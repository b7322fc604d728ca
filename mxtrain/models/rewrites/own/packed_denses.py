"""Large dense layers of nets that answer, by an operator of ours, whose weights are packed once.

The scores of 10,000 words for 2,048 tokens take 123 ms in the place of 134, for 16 tokens four sevenths of before. What
is large is written past the caches and in large pages.
"""

from __future__ import annotations

import math
from typing import Any, Mapping

from mxtrain import native
from mxtrain.core.system import kernels
from mxtrain.models.rewrites.graph_rewrites import (
    AddNode,
    Graph,
    Inputs,
    Shapes,
    in_bfloat16,
    in_float32,
    shape_of,
    users_of,
    with_replaced,
)
from mxtrain.runtime.own_operators import PACKED_DENSE, PACKED_WEIGHTS

DENSE_OF_MXNET = "FullyConnected"
FEWEST = 1 << 20  # weights
MOST_INPUTS = 4096  # at once: the columns of more are in no cache of a core
KERNELS = "AVX2"  # of oneDNN, as core/system/kernels.py names them
# What oneDNN joins with a dense layer.
JOINED = ("Activation", "LeakyReLU", "relu", "elemwise_add", "clip", "sigmoid", "tanh")


def with_packed_denses(graph: Graph, shapes: Shapes) -> Graph:
    """Return a graph that answers with our operator in such layers; without the part in C the same graph."""
    if native.OPERATORS is None or kernels.onednn() != KERNELS:
        return graph
    wide, users = in_float32(graph) - in_bfloat16(graph), users_of(graph)
    ours = (place for place in wide if _is_ours(graph, shapes, place, users.get(place, [])))
    return with_replaced(graph, dict.fromkeys(ours, _own))


def _is_ours(graph: Graph, shapes: Shapes, place: int, users: list[int]) -> bool:
    """Return whether this is a large dense layer of parameters, along the last axis of what it takes."""
    nodes = graph["nodes"]
    node = nodes[place]
    if node["op"] != DENSE_OF_MXNET or any(nodes[user]["op"] in JOINED for user in users):
        return False
    data, weights = (shape_of(graph, shapes, *entry[:2]) for entry in node["inputs"][:2])
    is_flat = node["attrs"].get("flatten", "True") != "True" or len(data) == 2
    are_parameters = all(nodes[source]["op"] == "null" for source, *_ in node["inputs"][1:])
    if len(data) < 2 or len(weights) != 2 or not is_flat or not are_parameters:
        return False
    return math.prod(weights) >= FEWEST and weights[1] <= MOST_INPUTS


def _own(node: Mapping[str, Any], inputs: Inputs, add: AddNode) -> int:
    name, sizes = node["name"], {"outputs": node["attrs"]["num_hidden"]}
    data, *parameters = inputs
    if len(parameters) == 1:
        shape = {"shape": f"({sizes['outputs']},)"}
        zeros = {"op": "_zeros", "name": f"{name}_biases", "attrs": shape, "inputs": []}
        parameters.append([add(zeros), 0, 0])
    packed = add({"op": PACKED_WEIGHTS, "name": f"{name}_packed", "attrs": sizes, "inputs": parameters})
    return add({"op": PACKED_DENSE, "name": name, "attrs": sizes, "inputs": [data, [packed, 0, 0]]})
