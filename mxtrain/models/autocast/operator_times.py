"""The time that an operator takes in float32 and in bfloat16, by the table of a machine (`config/autocast_costs.py`).

Owns the classes of operators and shapes: operators of a class gain by bfloat16, or lose, about alike. Only operators
that have a class here can run in bfloat16; MXNet and oneDNN have bfloat16 kernels for these.
"""

from __future__ import annotations

import math
from typing import Any, Mapping, NamedTuple, Sequence

from mxtrain.config.autocast_costs import Times
from mxtrain.models.autocast import wrong_kernels
from mxtrain.models.rewrites.graph_rewrites import Graph, Shape, Shapes, shape_of

BLOCK, MOST_COLOURS = 16, 4  # channels in a block of oneDNN's arrays with AVX-512; of pictures
FEW_CHANNELS, FEW_ROWS = 64, 64
PASSES = 3  # forward, and backward to the data and to the weights
PRODUCTS = ("Convolution", "FullyConnected")
# Elementwise operators and their like: by operator, the attribute that says which, and its values that can run in
# bfloat16.
ELEMENTWISE: Mapping[str, tuple[str, Sequence[str]]] = {
    "Activation": ("act_type", ("relu",)),
    "BatchNorm": ("", ()),
    "Pooling": ("pool_type", ("max", "avg")),
    "elemwise_add": ("", ()),
    "Concat": ("", ()),
}
WIDE = "__float32__"  # an attribute of operators that stay float32 whatever --amp says
ANY_OTHER = "any other"  # the class of operators that stay float32, to tell how long a step takes


class Cost(NamedTuple):
    """The nanoseconds of an operator; `bfloat16` is None where it cannot or must not run in bfloat16."""

    float32: int
    bfloat16: int | None
    flops: int  # of the forward pass of a convolution or dense layer


def cost_of(graph: Graph, shapes: Shapes, position: int, times: Times) -> Cost:
    """Return what the operator at `position` costs; `shapes` are those of the nodes' outputs."""
    node = graph["nodes"][position]
    if node["op"] == "null":
        return Cost(0, None, 0)
    inputs = [shape_of(graph, shapes, *entry[:2]) for entry in node["inputs"]]
    output = shape_of(graph, shapes, position, 0)
    if node["op"] in PRODUCTS and all(inputs[:2]) and output:
        return _cost_of_product(node, inputs, output, times)
    elements = max(num_elements(shape) for shape in (*inputs, output))
    pair = times.elements.get(element_class(node) or "")
    if pair is None:
        other = times.elements.get(ANY_OTHER, {"float32": 0.0})["float32"]
        return Cost(round(times.call + elements * other), None, 0)
    float32, bfloat16 = (round(times.call + elements * pair[dtype]) for dtype in ("float32", "bfloat16"))
    return Cost(float32, bfloat16, 0)


def _cost_of_product(node: Mapping[str, Any], inputs: Sequence[Shape], output: Shape, times: Times) -> Cost:
    weight = inputs[1]
    flops = 2 * math.prod(output) * math.prod(weight[1:])
    pair = times.products.get(product_class(node, inputs[0], weight, output))
    is_wrong = node["op"] == "Convolution" and wrong_kernels.is_wrong(
        node["attrs"], inputs[0], output, times.onednn
    )
    if pair is None or is_wrong or WIDE in node.get("attrs", {}):
        known = [each["float32"] for each in times.products.values()]
        return Cost(round(PASSES * flops / min(known)) if known else 0, None, flops)
    float32, bfloat16 = (
        round(times.call + PASSES * flops / pair[dtype]) for dtype in ("float32", "bfloat16")
    )
    return Cost(float32, bfloat16, flops)  # the casts of weights are in the times


def product_class(node: Mapping[str, Any], data: Shape, weight: Shape, output: Shape) -> str:
    """Return the class of a convolution or a dense layer, as `autocast_costs.json` names it."""
    if node["op"] == "FullyConnected":
        rows = math.prod(output) // weight[0]
        if min(weight) < BLOCK:
            return "dense, few columns"
        return f"dense, {'few' if rows < FEW_ROWS else 'many'} rows"
    groups, dimensions = int(node["attrs"].get("num_group", 1)), len(data) - 2
    inside, outside = data[1] // groups, output[1] // groups
    name = f"convolution {dimensions}D, "
    if groups > 1 and inside == 1:
        return name + f"depthwise, {_blocks(output[1])}"
    if groups > 1:
        return name + f"in groups of {_blocks(inside, outside)}"
    if inside <= MOST_COLOURS:
        return name + "of colours"
    kernel_type = "pointwise" if math.prod(weight[2:]) == 1 else "spatial"
    if inside % BLOCK or outside % BLOCK:
        return name + f"{kernel_type}, part blocks"
    return name + f"{kernel_type}, {'few' if min(inside, outside) < FEW_CHANNELS else 'many'} channels"


def element_class(node: Mapping[str, Any]) -> str | None:
    """Return the class of another operator that can run in bfloat16; None of one that cannot."""
    if node["op"] not in ELEMENTWISE:
        return None
    attribute, able = ELEMENTWISE[node["op"]]
    if not attribute:
        return str(node["op"])
    value = node.get("attrs", {}).get(attribute, able[0])
    return f"{node['op']} {value}" if value in able else None


def num_elements(shape: Shape) -> int:
    """Return the size of an array; 0 where its shape is not known."""
    return math.prod(shape) if shape else 0


def _blocks(*channels: int) -> str:
    return "part blocks" if any(each % BLOCK for each in channels) else "whole blocks"
