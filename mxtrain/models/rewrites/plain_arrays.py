"""Plain arrays for operators for which oneDNN has only slow kernels otherwise.

With AVX-512 a convolution keeps arrays in blocks of 16 channels; in blocks of 8, where it reads or writes other than
whole ones, such as 24 channels; and one in groups of 4 channels in blocks of 4. A BatchNorm between two that differ
gets its input in one form and the gradient of its output in the other; a global pooling of part blocks does too. For
that, and for all BatchNorms of blocks of 4, oneDNN 2.4.4 has only its reference kernels, which took 20 times as long as
all else of a mobilenetv2's BatchNorms together. An array in plain order MXNet puts into the other's form by itself. So
a copy in plain order is put beside such an operator; its backward pass makes one of the gradient.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from mxtrain.models.rewrites import array_blocks, norm_relus
from mxtrain.models.rewrites.array_blocks import BLOCKS, CHANNELS, OF_PICTURES
from mxtrain.models.rewrites.graph_rewrites import (
    AddNode,
    Graph,
    Inputs,
    Replacement,
    Shapes,
    in_bfloat16,
    plain_copy,
    shape_of,
    users_of,
    with_replaced,
)

# What passes on the form of the arrays that it gets.
THROUGH = {
    *("Activation", "LeakyReLU", "relu", "clip", "_minimum_scalar", "_maximum_scalar", "Pooling", "Dropout"),
    *("_plus_scalar", "_mul_scalar", "_div_scalar", "elemwise_mul", "hard_sigmoid", "amp_cast"),
}


def with_plain_arrays(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph with a plain node beside each operator whose arrays would come in such forms.

    `shapes` are those of the nodes' outputs. Operators in bfloat16 stay as they are.
    """
    narrow = in_bfloat16(graph)
    users = users_of(graph)
    wide = [place for place in range(len(graph["nodes"])) if place not in narrow]
    return with_replaced(graph, {place: _plain_node(graph, shapes, users, place) for place in wide})


def _plain_node(
    graph: Graph, shapes: Shapes, users: Mapping[int, list[int]], position: int
) -> Replacement | None:
    """Return where the operator at `position` needs a plain node; None where it needs none."""
    node = graph["nodes"][position]
    if node["op"] == "Pooling" and node["attrs"].get("global_pool") == "True":
        data = shape_of(graph, shapes, *node["inputs"][0][:2])
        return _with_plain_input if len(data) == OF_PICTURES and data[CHANNELS] % BLOCKS[0] else None
    if node["op"] not in ("BatchNorm", norm_relus.JOINED):
        return None
    before = array_blocks.of_convolution(graph, shapes, node["inputs"][0][0])
    if before == BLOCKS[-1]:
        return _with_plain_input
    after = {
        array_blocks.of_convolution(graph, shapes, each)
        for each in _convolutions_after(graph["nodes"], users, position)
    }
    return _with_plain_output if before and after - {before, 0} else None


def _convolutions_after(
    nodes: Sequence[Mapping[str, Any]], users: Mapping[int, list[int]], position: int
) -> list[int]:
    """Return the convolutions that take what the node at `position` computes, as it is or through simple operators."""
    found: list[int] = []
    left, seen = [position], {position}
    while left:
        for user in users.get(left.pop(), ()):
            if user not in seen and nodes[user]["op"] in {"Convolution", *THROUGH}:
                seen.add(user)
                (found if nodes[user]["op"] == "Convolution" else left).append(user)
    return found


def _with_plain_output(node: Mapping[str, Any], inputs: Inputs, add: AddNode) -> int:
    return add(plain_copy(f"{node['name']}_plain", [add({**node, "inputs": inputs}), 0, 0]))


def _with_plain_input(node: Mapping[str, Any], inputs: Inputs, add: AddNode) -> int:
    first, *others = inputs
    plain = add(plain_copy(f"{node['name']}_plain", first))
    return add({**node, "inputs": [[plain, 0, 0], *others]})
