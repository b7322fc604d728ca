"""Weights of LSTM, GRU and RNN layers, put side by side by rows.

Gluon joins all weights of such a layer into one array at each forward pass, and MXNet copies vectors number by number
for it: 10 ms for 4 MB, and 4 more in the backward pass. As rows of a matrix that takes 0.4 and 2, to the bit.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Mapping

from mxtrain.models.rewrites.graph_rewrites import (
    AddNode,
    Graph,
    Inputs,
    Replacement,
    Shapes,
    shape_of,
    with_replaced,
)

JOIN = "_rnn_param_concat"
LEAST_ROW = 16  # numbers; shorter rows gain little


def with_weights_by_rows(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph with such vectors joined as rows, of the greatest length that divides all of theirs."""
    replacements: dict[int, Replacement | None] = {}
    for place, node in enumerate(graph["nodes"]):
        if node["op"] == JOIN:
            parts = [shape_of(graph, shapes, *source[:2]) for source in node["inputs"]]
            # A vector whose length is not known yet has none, or 0 for it.
            lengths = [part[0] if len(part) == 1 else 0 for part in parts]
            row = functools.reduce(math.gcd, lengths) if all(lengths) else 0
            if row >= LEAST_ROW:
                replacements[place] = functools.partial(_by_rows, row=row)
    return with_replaced(graph, replacements)


def _by_rows(node: Mapping[str, Any], inputs: Inputs, add: AddNode, row: int) -> int:
    name = node["name"]

    def reshaped(source: list[int], shape: tuple[int, ...], name: str) -> int:
        return add({"op": "Reshape", "name": name, "attrs": {"shape": str(shape)}, "inputs": [source]})

    rows = [[reshaped(source, (-1, row), f"{name}_rows{place}"), 0, 0] for place, source in enumerate(inputs)]
    matrix = add({**node, "name": f"{name}_matrix", "inputs": rows})
    return reshaped([matrix, 0, 0], (-1,), name)
