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

from mxtrain.models import norm_relus
from mxtrain.models.graph_rewrites import (
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

BLOCKS = (16, 8, 4)  # the first of them that channels fill is taken
CHANNELS, OF_PICTURES = 1, 4
MOST_COLOURS = 4  # of pictures, for which oneDNN has first convolutions of their own
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
    before = _block(graph, shapes, node["inputs"][0][0])
    if before == BLOCKS[-1]:
        return _with_plain_input
    after = {_block(graph, shapes, each) for each in _convolutions_after(graph["nodes"], users, position)}
    return _with_plain_output if before and after - {before, 0} else None


def _block(graph: Graph, shapes: Shapes, position: int) -> int:
    """Return the channels in a block of what the convolution at `position` reads and writes; 0 of any other node."""
    node = graph["nodes"][position]
    if node["op"] == "amp_cast":
        return _block(graph, shapes, node["inputs"][0][0])
    if node["op"] != "Convolution":
        return 0
    data, output = shape_of(graph, shapes, *node["inputs"][0][:2]), int(node["attrs"]["num_filter"])
    if len(data) != OF_PICTURES:
        return 0
    channels, groups = data[CHANNELS], int(node["attrs"].get("num_group", 1))
    if groups > 1 and not channels == groups == output:  # each channel by itself is no bar to blocks
        channels, output = channels // groups, output // groups
    read = [] if channels <= MOST_COLOURS and groups == 1 else [channels]
    return next((block for block in BLOCKS if all(each % block == 0 for each in [*read, output])), 1)


def _convolutions_after(
    nodes: Sequence[Mapping[str, Any]], users: Mapping[int, list[int]], position: int
) -> list[int]:
    """Return the convolutions that take what the node at `position` computes, as it is or through simple operators."""
    found, left, seen = [], [position], {position}
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
