"""Multiplications of a forward pass, counted in the graph that MXNet compiles: convolutions and products of matrices.

A step makes three times as many: its backward pass computes one such product for the inputs, one for the weights.
"""

from __future__ import annotations

import json
import math
from typing import Any, Callable, Mapping, Sequence

Shape = Sequence[int]
FLOPS_OF_A_STEP = 3 * 2  # for each multiplication of a forward pass; an addition goes with each


def of_net(net: Any, data: Any) -> int:
    """Return the number for a batch of a HybridBlock that has been called."""
    from mxtrain.models.rewrites.graph_rewrites import shape_of
    from mxtrain.runtime import mx

    output = net(mx.sym.var("data"))
    internals = output.get_internals()
    _, shapes, _ = internals.infer_shape(data=data.shape)
    by_name = dict(zip(internals.list_outputs(), shapes))
    graph = json.loads(output.tojson())
    return sum(
        COUNTS[node["op"]](
            shape_of(graph, by_name, position, 0),
            [shape_of(graph, by_name, *entry[:2]) for entry in node["inputs"]],
            node.get("attrs", {}),
        )
        for position, node in enumerate(graph["nodes"])
        if node["op"] in COUNTS
    )


def _convolution(output: Shape, inputs: Sequence[Shape], _: Mapping[str, str]) -> int:
    _, weight, *_ = inputs
    return math.prod(output) * math.prod(weight[1:])


def _dense(output: Shape, inputs: Sequence[Shape], _: Mapping[str, str]) -> int:
    _, weight, *_ = inputs
    return math.prod(output) * weight[1]


def _scores(output: Shape, inputs: Sequence[Shape], attributes: Mapping[str, str]) -> int:
    ((_, _, three_widths),) = inputs
    return math.prod(output) * three_widths // 3 // int(attributes["heads"])


def _attended(output: Shape, inputs: Sequence[Shape], _: Mapping[str, str]) -> int:
    return math.prod(output) * inputs[1][-1]


def _lstm(output: Shape, inputs: Sequence[Shape], attributes: Mapping[str, str]) -> int:
    """All weights but the biases, two for each of four gates, take part in every place of every sequence."""
    length, num_sequences, _ = inputs[0]
    num_biases = int(attributes["num_layers"]) * 2 * 4 * int(attributes["state_size"])
    return length * num_sequences * (math.prod(inputs[1]) - num_biases)


COUNTS: dict[str, Callable[[Shape, Sequence[Shape], Mapping[str, str]], int]] = {
    "Convolution": _convolution,
    "FullyConnected": _dense,
    "_contrib_interleaved_matmul_selfatt_qk": _scores,
    "_contrib_interleaved_matmul_selfatt_valatt": _attended,
    "RNN": _lstm,
}
