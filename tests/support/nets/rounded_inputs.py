"""What bfloat16 does to a net when its kernels are right: float32's operators, with all that goes between rounded."""

from __future__ import annotations

from typing import Any, Collection

from mxtrain.models.autocast.autocast import bfloat16_inputs
from mxtrain.models.rewrites.graph_rewrites import Graph


def with_rounded_inputs(graph: Graph, chosen: Collection[int]) -> Graph:
    """Return the graph with the inputs of the operators at these positions, and their gradients, rounded to bfloat16.

    Takes the place of `autocast.with_casts`: each input goes to bfloat16 and back, and so does its gradient.
    """
    nodes: list[dict[str, Any]] = []
    positions: list[int] = []  # of the old nodes
    made: dict[tuple[int, int], int] = {}

    def cast(dtype: str, source: int, output: int) -> int:
        attributes = {"dtype": dtype}
        name = f"{nodes[source]['name']}_{dtype}{output}"
        nodes.append({"op": "amp_cast", "name": name, "attrs": attributes, "inputs": [[source, output, 0]]})
        return len(nodes) - 1

    def rounded(source: int, output: int) -> list[int]:
        if (source, output) not in made:
            made[source, output] = cast("float32", cast("bfloat16", source, output), 0)
        return [made[source, output], 0, 0]

    for place, node in enumerate(graph["nodes"]):
        slots = bfloat16_inputs(node) if place in chosen else ()
        inputs = [
            rounded(positions[source], output) if slot in slots else [positions[source], output, 0]
            for slot, (source, output, *_) in enumerate(node["inputs"])
        ]
        nodes.append({**node, "inputs": inputs})
        positions.append(len(nodes) - 1)
    return {
        "heads": [[positions[source], output, 0] for source, output, *_ in graph["heads"]],
        "nodes": nodes,
        "arg_nodes": [positions[place] for place in graph["arg_nodes"]],
        "attrs": graph["attrs"],
    }
