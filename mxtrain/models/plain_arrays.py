"""Plain arrays for operators that would get theirs in two forms, for which oneDNN has slow kernels only.

With AVX-512 a convolution keeps arrays in blocks of 16 channels, and one that reads or writes other than whole blocks,
such as 24 channels, in blocks of 8. A BatchNorm between two that differ gets its input in one form and the gradient of
its output in the other; so does a global pooling of such channels. For that oneDNN 2.4.4 has only its reference
kernels, which took 20 times as long as all else of a mobilenetv2's BatchNorms together. An array in plain order MXNet
puts into the form of the other by itself. So a node is put beside such an operator that computes nothing, but takes and
gives plain arrays: a clip without limits. It is no other, because most that would do give the gradient on in place.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from mxtrain.models.graph_rewrites import AddNode, Graph, Inputs, Shape, Shapes, shape_of, with_replaced

BLOCK = 16
CHANNELS, OF_PICTURES = 1, 4
MOST_COLOURS = 4  # of pictures, for which oneDNN has first convolutions of their own
# What passes on the form of the arrays that it gets.
THROUGH = {
    *("Activation", "LeakyReLU", "relu", "clip", "_minimum_scalar", "_maximum_scalar", "Pooling", "Dropout"),
    *("_plus_scalar", "_mul_scalar", "_div_scalar", "elemwise_mul"),
}


def with_plain_arrays(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph with a plain node behind each BatchNorm between convolutions of unlike blocks, and before each
    global pooling of channels that are no whole blocks.

    `shapes` are those of the nodes' outputs.
    """
    graph = with_replaced(graph, _norms_between_unlike(graph, shapes), _with_plain_output)
    pools = [
        position
        for position, node in enumerate(graph["nodes"])
        if node["op"] == "Pooling"
        and node["attrs"].get("global_pool") == "True"
        and _is_of_part_blocks(shape_of(graph, shapes, *node["inputs"][0][:2]))
    ]
    return with_replaced(graph, pools, _with_plain_input)


def _norms_between_unlike(graph: Graph, shapes: Shapes) -> list[int]:
    nodes = graph["nodes"]
    users: dict[int, list[int]] = {}
    for position, node in enumerate(nodes):
        for source, *_ in node["inputs"]:
            users.setdefault(source, []).append(position)

    def is_between_unlike(position: int) -> bool:
        source = nodes[position]["inputs"][0][0]
        if nodes[source]["op"] != "Convolution":
            return False
        before = _has_whole_blocks(graph, shapes, source)
        after = _convolutions_after(nodes, users, position)
        return any(_has_whole_blocks(graph, shapes, each) != before for each in after)

    norms = [position for position, node in enumerate(nodes) if node["op"] == "BatchNorm"]
    return [norm for norm in norms if is_between_unlike(norm)]


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


def _has_whole_blocks(graph: Graph, shapes: Shapes, position: int) -> bool:
    node = graph["nodes"][position]
    data, output = shape_of(graph, shapes, *node["inputs"][0][:2]), int(node["attrs"]["num_filter"])
    if len(data) != OF_PICTURES:
        return True
    return output % BLOCK == 0 and (data[CHANNELS] % BLOCK == 0 or data[CHANNELS] <= MOST_COLOURS)


def _is_of_part_blocks(shape: Shape) -> bool:
    return len(shape) == OF_PICTURES and shape[CHANNELS] % BLOCK != 0


def _with_plain_output(node: Mapping[str, Any], inputs: Inputs, add: AddNode) -> int:
    return add(_plain(node["name"], [add({**node, "inputs": inputs}), 0, 0]))


def _with_plain_input(node: Mapping[str, Any], inputs: Inputs, add: AddNode) -> int:
    return add({**node, "inputs": [[add(_plain(node["name"], inputs[0])), 0, 0]]})


def _plain(name: str, entry: list[int]) -> dict[str, Any]:
    limits = {"a_min": "-inf", "a_max": "inf"}
    return {"op": "clip", "name": f"{name}_plain", "attrs": limits, "inputs": [entry]}
