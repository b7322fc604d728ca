"""Dense layers of few numbers by an operator of ours, where oneDNN's kernels are those for AVX2.

Those slow down where both sizes are powers of two and one is small, as in nets of width 256: forward and backward,
4,096 rows of 256 inputs and 1,024 outputs take 55 ms, the other way round 53; ours take 39 and 40, so that such a net's
step takes nine tenths of its time. Layers of other sizes stay: of 512 and 2,048 numbers both take as long, of 192 and
768 ours takes longer among a net's other arrays.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Mapping

from mxtrain import native
from mxtrain.core.system import kernels
from mxtrain.models.rewrites.graph_rewrites import (
    AddNode,
    Graph,
    Inputs,
    Replacement,
    Shapes,
    gradient_copy,
    in_bfloat16,
    in_float32,
    shape_of,
    with_replaced,
)
from mxtrain.runtime.own_operators import DENSE

DENSE_OF_MXNET = "FullyConnected"
MOST = 256  # inputs or outputs, the fewer of them
FEWEST = 1 << 24  # multiplications: with less nothing is won
FEWEST_ROWS = 1024
KERNELS = "AVX2"  # of oneDNN, as core/system/kernels.py names them


def with_own_denses(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph with our operator in such layers; without the part in C the same graph."""
    if native.OPERATORS is None or kernels.onednn() != KERNELS:
        return graph
    wide = in_float32(graph) - in_bfloat16(graph)
    return with_replaced(graph, {place: _replacement(graph, shapes, place) for place in wide})


def _replacement(graph: Graph, shapes: Shapes, position: int) -> Replacement | None:
    """Return what replaces the node at `position`; None if it stays."""
    node = graph["nodes"][position]
    if node["op"] != DENSE_OF_MXNET:
        return None
    data, weights = (shape_of(graph, shapes, *entry[:2]) for entry in node["inputs"][:2])
    is_flat = node["attrs"].get("flatten", "True") != "True" or len(data) == 2
    if len(data) < 2 or len(weights) != 2 or not is_flat:
        return None
    rows = math.prod(data[:-1])
    are_powers_of_two = all(size & (size - 1) == 0 for size in weights)
    is_large = rows >= FEWEST_ROWS and rows * math.prod(weights) >= FEWEST
    is_ours = min(weights) <= MOST and are_powers_of_two and is_large
    return functools.partial(_own, outputs=weights[0]) if is_ours else None


def _own(node: Mapping[str, Any], inputs: Inputs, add: AddNode, outputs: int) -> int:
    """Add our operator behind copies."""
    name = node["name"]
    entries = [
        [add(gradient_copy(f"{name}_{role}", entry)), 0, 0]
        for role, entry in zip(("rows", "weights", "biases"), inputs)
    ]
    if len(entries) == 2:
        shape = {"shape": str((outputs,))}
        entries.append([add({"op": "_zeros", "name": f"{name}_biases", "attrs": shape, "inputs": []}), 0, 0])
    attributes = {"outputs": str(outputs)}
    return add({"op": DENSE, "name": name, "attrs": attributes, "inputs": entries})
