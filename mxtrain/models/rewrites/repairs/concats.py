"""Concats of channels whose backward pass MXNet 1.9.1 can compute on a CPU.

oneDNN keeps a concat's gradient in blocks of 16 channels if their sum allows it. Inputs that are no whole blocks cannot
be cut from that: the backward pass ends with "could not construct a sub-memory" (inputs of 24 channels), or the process
with SIGFPE (inputs of 8). A concat of arrays with one more axis is MXNet's own and has no blocks.
"""

from __future__ import annotations

from typing import Any, Mapping

from mxtrain.models.rewrites.graph_rewrites import (
    AddNode,
    Graph,
    Inputs,
    Shape,
    Shapes,
    shape_of,
    with_replaced,
)

BLOCK = 16  # oneDNN's channels in a block with AVX-512; with less it is 8
CHANNELS, NUM_AXES = 1, 4  # of a batch of pictures; a new axis comes after its last


def with_trainable_concats(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph with concats that MXNet can go back through; `shapes` are those of the nodes' outputs."""
    return with_replaced(graph, dict.fromkeys(unaligned_concats(graph, shapes), _with_new_axis))


def unaligned_concats(graph: Graph, shapes: Shapes) -> list[int]:
    """Return the positions of nodes that join pictures' channels and take other than whole blocks.

    `shapes` are those of the nodes' outputs, by name.
    """
    return [
        position
        for position, node in enumerate(graph["nodes"])
        if node["op"] == "Concat"
        and any(_is_unaligned(node, shape_of(graph, shapes, *entry[:2])) for entry in node["inputs"])
    ]


def _is_unaligned(concat: Mapping[str, Any], input_shape: Shape) -> bool:
    axis = int(concat.get("attrs", {}).get("dim", CHANNELS))
    return (
        len(input_shape) == NUM_AXES
        and axis in (CHANNELS, CHANNELS - len(input_shape))
        and input_shape[CHANNELS] % BLOCK != 0
    )


def _with_new_axis(node: Mapping[str, Any], inputs: Inputs, add: AddNode) -> int:
    """Add a concat of arrays that have one more axis, of length 1."""
    axis, name = {"axis": str(NUM_AXES)}, node["name"]
    parts = [
        add({"op": "expand_dims", "name": f"{name}_part{number}", "attrs": axis, "inputs": [part]})
        for number, part in enumerate(inputs)
    ]
    dim = {**node["attrs"], "dim": str(CHANNELS)}
    joined = add({**node, "attrs": dim, "name": f"{name}_parts", "inputs": [[part, 0, 0] for part in parts]})
    return add({"op": "squeeze", "name": name, "attrs": axis, "inputs": [[joined, 0, 0]]})
