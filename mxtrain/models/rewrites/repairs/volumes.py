"""Convolutions of volumes whose gradients oneDNN 2.4.4 gets right.

Where such a convolution takes steps in depth and pads there, gradients of its weights are wrong, in float32 too, and
memory of other arrays is overwritten: up to a crash, "double free or corruption". With the padding as an operator of
its own they are exact. They stay float32 then, as the shape of that operator is not among those that are known.
"""

from __future__ import annotations

from typing import Any, Mapping

from mxtrain.models.rewrites.graph_rewrites import AddNode, Graph, Inputs, Shapes, numbers, with_replaced

DEPTH, NUM_AXES = 0, 3  # of the kernel
BATCH_AND_CHANNELS, HEIGHT_AND_WIDTH = (0, 0, 0, 0), (0, 0, 0, 0)  # before and after each axis


def with_padded_volumes(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph with the padding in depth of such convolutions before them."""
    places = [
        place
        for place, node in enumerate(graph["nodes"])
        if node["op"] == "Convolution" and is_wrong(node["attrs"])
    ]
    return with_replaced(graph, dict.fromkeys(places, _padded_before))


def is_wrong(attributes: Mapping[str, Any]) -> bool:
    """Return whether a convolution, of these attributes in a graph, is one of volumes that has to be mended."""
    stride, pad = numbers(attributes, "stride"), numbers(attributes, "pad")
    return len(stride) == len(pad) == NUM_AXES and stride[DEPTH] > 1 and pad[DEPTH] > 0


def _padded_before(node: Mapping[str, Any], inputs: Inputs, add: AddNode) -> int:
    depth, *others = numbers(node["attrs"], "pad")
    width = (*BATCH_AND_CHANNELS, depth, depth, *HEIGHT_AND_WIDTH)
    attributes = {"mode": "constant", "constant_value": "0", "pad_width": str(width)}
    data, *weights = inputs
    padded = add({"op": "Pad", "name": f"{node['name']}_padded", "attrs": attributes, "inputs": [data]})
    rest = {**node["attrs"], "pad": str((0, *others))}
    return add({**node, "attrs": rest, "inputs": [[padded, 0, 0], *weights]})
