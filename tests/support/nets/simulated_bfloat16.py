"""Nets in bfloat16 on any CPU: their graphs as they are rewritten, with float32's operators between the roundings.

oneDNN multiplies bfloat16 with AVX-512 alone, and fails without. Casts work everywhere.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator
from unittest import mock

from mxtrain.core.system import kernels
from mxtrain.models import chosen_rewrites
from mxtrain.models.rewrites.graph_rewrites import CASTS, Graph, Shapes, in_bfloat16

KERNELS = "AVX512_CORE_BF16"
LISTS = ("TRAINING_REWRITES", "JUDGING_REWRITES", "RECORDED_REWRITES")


@contextlib.contextmanager
def simulated() -> Iterator[None]:
    """A block in which nets that are compiled for bfloat16 are as on a CPU that has it, but for its products."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(kernels, "onednn", lambda *_: KERNELS))
        for name in LISTS:
            rewrites = (*getattr(chosen_rewrites, name), with_rounded_outputs)
            stack.enter_context(mock.patch.object(chosen_rewrites, name, rewrites))
        yield


def with_rounded_outputs(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph with float32's operators for bfloat16's, and what they give, and its gradient, rounded."""
    narrow = in_bfloat16(graph)
    nodes: list[dict[str, Any]] = []
    positions: list[
        int
    ] = []  # of the old nodes; of those in bfloat16, of what their first outputs are rounded to
    operators: list[int] = []  # of the old nodes, before they are rounded
    widened: dict[int, int] = {}  # from the old nodes in bfloat16 to their casts back

    def cast(dtype: str, source: int, name: str) -> int:
        attributes = {"dtype": dtype}
        nodes.append({"op": "amp_cast", "name": name, "attrs": attributes, "inputs": [[source, 0, 0]]})
        return len(nodes) - 1

    def as_it_is(source: int, output: int) -> list[int]:
        return [operators[source] if output else positions[source], output, 0]

    def wide(source: int, output: int) -> list[int]:
        if source not in narrow or output:
            return as_it_is(source, output)
        if source not in widened:
            widened[source] = cast("float32", positions[source], f"{graph['nodes'][source]['name']}_wide")
        return [widened[source], 0, 0]

    for place, node in enumerate(graph["nodes"]):
        is_rounded = place in narrow and node["op"] not in CASTS
        entry = wide if is_rounded else as_it_is
        nodes.append({**node, "inputs": [entry(source, output) for source, output, *_ in node["inputs"]]})
        operators.append(len(nodes) - 1)
        if is_rounded:
            cast("bfloat16", len(nodes) - 1, f"{node['name']}_rounded")
        positions.append(len(nodes) - 1)
    return {
        **graph,
        "heads": [as_it_is(source, output) for source, output, *_ in graph["heads"]],
        "nodes": nodes,
        "arg_nodes": [positions[place] for place in graph["arg_nodes"]],
    }
