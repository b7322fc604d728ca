"""A BatchNorm and the ReLU after it as one operator, which goes over the arrays once.

To the bit as two, in bfloat16 too. MXNet has it for CPUs only, with oneDNN, and for arrays of pictures.

A ReLU6, which is a clip for MXNet, becomes that ReLU and a minimum. It spares mobilenetv2 a fifth of its step, because
MXNet's own operators, unlike oneDNN's, need plain arrays: the minimum gets them from a copy before it, and its gradient
from one behind it, as MXNet would hold on to copies that it makes itself. At exactly 0 its gradient is ReLU's, 0, where
clip's is 1; a BatchNorm computes that for channels that do not vary only.
"""

from __future__ import annotations

import functools
import os
from typing import Any, Collection, Mapping, Sequence

from mxtrain.core.system import kernels
from mxtrain.models.rewrites import array_blocks
from mxtrain.models.rewrites.graph_rewrites import (
    AddNode,
    Graph,
    Inputs,
    Replacement,
    Shapes,
    are_float32,
    in_bfloat16,
    input_itself,
    outputs_of,
    plain_copy,
    shape_of,
    users_of,
    with_replaced,
)
from mxtrain.runtime import mx

JOINED = "_contrib_BatchNormWithReLU"
OF_PICTURES = 4
GAMMA = 1  # of its inputs


def with_joined_relus(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph with one operator for each BatchNorm that only a ReLU follows; `shapes` are of its nodes."""
    nodes = graph["nodes"]
    if not _has_onednn():
        return graph
    users, narrow = users_of(graph), in_bfloat16(graph)
    # The backward pass of the two as one wants data and gradient in one order. Beside kernels for AMX they come in two.
    unfit = narrow if kernels.onednn() == kernels.AMX else set()
    outputs = outputs_of(graph)
    in_blocks = array_blocks.outputs_in_blocks(graph, shapes)
    with_gradient_in_blocks = array_blocks.gradients_in_blocks(graph, shapes, users)
    replacements: dict[int, Replacement | None] = {}
    for norm, (user, *others) in users.items():
        if others or norm in outputs or norm in unfit or not is_norm(graph, shapes, norm):
            continue
        name = nodes[user]["name"]
        if is_relu(nodes[user]):
            # For data and gradient in two orders the joined operator has no backward pass, or a wrong one: MXNet puts
            # plain data into the gradient's order, but not the places that the ReLU has noted (docs/adr/0041).
            if nodes[norm]["inputs"][0][0] not in in_blocks or user not in with_gradient_in_blocks:
                continue
            replacements.update({norm: functools.partial(_joined, name=name), user: input_itself})
        elif _is_limited_relu(nodes[user]):
            minimum = _minimum if norm in narrow else _minimum_of_plain
            replacements.update({norm: functools.partial(_joined, name=f"{name}_relu"), user: minimum})
    return with_replaced(graph, replacements)


def with_judged_relus(graph: Graph, norms: Collection[str]) -> Graph:
    """Return the graph, which nothing goes back through, with one operator for each norm that only a ReLU follows.

    `norms` are the names of those that `is_norm` says are fit.
    """
    users, outputs = users_of(graph), outputs_of(graph)
    replacements: dict[int, Replacement | None] = {}
    for norm, (user, *others) in users.items() if _has_onednn() else ():
        node, following = graph["nodes"][norm], graph["nodes"][user]
        is_fit = node["op"] == "BatchNorm" and node["name"] in norms and norm not in outputs
        if is_fit and not others and is_relu(following):
            joined = functools.partial(_joined, name=following["name"])
            replacements.update({norm: joined, user: input_itself})
    return with_replaced(graph, replacements)


def with_relus_apart(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph with two operators for each joined one.

    The joined one's backward pass needs the places that its forward pass notes in training alone: gradients of answers
    by running statistics were 0.
    """
    joined = [place for place, node in enumerate(graph["nodes"]) if node["op"] == JOINED]
    return with_replaced(graph, dict.fromkeys(joined, _apart))


@functools.lru_cache(maxsize=None)
def _has_onednn() -> bool:
    is_on = os.environ.get("MXNET_MKLDNN_ENABLED", "1") != "0"
    return is_on and bool(mx.runtime.Features().is_enabled("MKLDNN"))


def is_relu(node: Mapping[str, Any]) -> bool:
    """Return whether the node is a ReLU, by either of its names."""
    is_activation = node["op"] == "Activation" and node["attrs"].get("act_type") == "relu"
    return bool(is_activation or node["op"] == "relu")


def _is_limited_relu(node: Mapping[str, Any]) -> bool:
    return node["op"] == "clip" and float(node["attrs"]["a_min"]) == 0 < float(node["attrs"]["a_max"])


def is_norm(graph: Graph, shapes: Shapes, position: int, operators: Sequence[str] = ("BatchNorm",)) -> bool:
    """Return whether this is one of `operators`, of the channels of pictures, whose statistics are not asked for."""
    node = graph["nodes"][position]
    attributes = node.get("attrs", {})
    return (
        node["op"] in operators
        and are_float32(graph["nodes"][node["inputs"][GAMMA][0]])
        and attributes.get("output_mean_var", "False") == "False"
        and attributes.get("axis", "1") == "1"
        and len(shape_of(graph, shapes, *node["inputs"][0][:2])) == OF_PICTURES
    )


def _joined(node: Mapping[str, Any], inputs: Inputs, add: AddNode, name: str) -> int:
    return add({**node, "op": JOINED, "name": name, "inputs": inputs})


def _apart(node: Mapping[str, Any], inputs: Inputs, add: AddNode) -> int:
    norm = add({**node, "op": "BatchNorm", "name": f"{node['name']}_norm", "inputs": inputs})
    relu = {"op": "Activation", "name": node["name"], "attrs": {"act_type": "relu"}}
    return add({**relu, "inputs": [[norm, 0, 0]]})


def _minimum(node: Mapping[str, Any], inputs: Inputs, add: AddNode) -> int:
    limit = {"scalar": node["attrs"]["a_max"]}
    return add({"op": "_minimum_scalar", "name": node["name"], "attrs": limit, "inputs": inputs})


def _minimum_of_plain(node: Mapping[str, Any], inputs: Inputs, add: AddNode) -> int:
    name = node["name"]
    before = add(plain_copy(f"{name}_before", inputs[0]))
    minimum = _minimum({**node, "name": f"{name}_min"}, [[before, 0, 0]], add)
    return add(plain_copy(name, [minimum, 0, 0]))
