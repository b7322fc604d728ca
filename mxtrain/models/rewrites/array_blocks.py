"""The blocks of channels in which oneDNN keeps the arrays between its operators, as far as a graph tells.

Forecast for AVX-512. With AVX2 blocks of 16 are of 8, so arrays that are alike here are alike there. Below AVX2 nothing
is known of arrays: they come in other orders.
"""

from __future__ import annotations

import math
from typing import Mapping, Sequence

from mxtrain.core.system import kernels
from mxtrain.models.rewrites.graph_rewrites import (
    Graph,
    Shapes,
    numbers,
    outputs_of,
    shape_of,
)

BLOCKS = (16, 8, 4)  # of a convolution; the first of them that its channels fill is taken
WHOLE = BLOCKS[0]  # of which all inputs and outputs of a convolution are made
CHANNELS, OF_PICTURES = 1, 4
FORESEEN = kernels.ONEDNN_NAMES[kernels.ONEDNN_NAMES.index("AVX2") :]
MOST_COLOURS = 4  # of pictures, for which oneDNN has first convolutions of their own
LARGEST_KERNEL = 7  # some larger ones, those with holes and with wide borders, AVX2 has in plain order only


def of_convolution(graph: Graph, shapes: Shapes, position: int) -> int:
    """Return the channels in a block of what the convolution at `position` reads and writes; 0 of any other node.

    1 means that it fills no block, and that its arrays are in an order of its own.
    """
    node = graph["nodes"][position]
    if node["op"] == "amp_cast":
        return of_convolution(graph, shapes, node["inputs"][0][0])
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


def outputs_in_blocks(graph: Graph, shapes: Shapes) -> set[int]:
    """Return the positions of the nodes whose outputs are known to come in whole blocks of channels."""
    known: set[int] = set()
    for position, node in enumerate(graph["nodes"]):
        sources = [source for source, *_ in node["inputs"]]
        if node["op"] in ("BatchNorm", "Activation"):
            is_known = sources[0] in known
        elif _passes_blocks(graph, position):
            is_known = known.issuperset(sources)
        else:  # a cast of a convolution gives a plain array
            is_known = (
                node["op"] == "Convolution"
                and of_convolution(graph, shapes, position) == WHOLE
                and _has_small_kernel(graph, shapes, position)
            )
        if is_known and _is_foreseen(graph, shapes, position):
            known.add(position)
    return known


def _has_small_kernel(graph: Graph, shapes: Shapes, position: int) -> bool:
    """Return whether all that oneDNN may choose for the convolution at `position` write blocks."""
    attributes = graph["nodes"][position]["attrs"]
    kernel, dilation = numbers(attributes, "kernel"), numbers(attributes, "dilate")
    borders = numbers(attributes, "pad") or (0, 0)
    sides = shape_of(graph, shapes, position, 0)[CHANNELS + 1 :]
    return (
        max(kernel) <= LARGEST_KERNEL
        and max(dilation, default=1) == 1
        and all(border <= min(side, size // 2) for border, side, size in zip(borders, sides, kernel))
    )


def gradients_in_blocks(graph: Graph, shapes: Shapes, users: Mapping[int, Sequence[int]]) -> set[int]:
    """Return the positions of the nodes whose outputs' gradients are known to come in whole blocks of channels.

    `users` are those of each node's outputs.
    """
    known: set[int] = set()
    outputs = outputs_of(graph)

    def gives_blocks(user: int) -> bool:
        is_passed = user in known and _passes_blocks(graph, user)
        return is_passed or of_convolution(graph, shapes, user) == WHOLE

    for position in reversed(range(len(graph["nodes"]))):
        of_node = users.get(position, ())
        is_known = of_node and position not in outputs and all(map(gives_blocks, of_node))
        if is_known and _is_foreseen(graph, shapes, position):
            known.add(position)
    return known


def _passes_blocks(graph: Graph, position: int) -> bool:
    """Return whether the node's output and its gradient have the blocks that its inputs and their gradients have."""
    return graph["nodes"][position]["op"] in ("elemwise_add", "Concat", "Pooling")


def _is_foreseen(graph: Graph, shapes: Shapes, position: int) -> bool:
    """Return whether the forecast is one for pictures of the node's: of a single pixel any order may be told."""
    return (
        kernels.onednn() in FORESEEN and math.prod(shape_of(graph, shapes, position, 0)[CHANNELS + 1 :]) > 1
    )
