"""Graphs that answer and are not trained: what only training needs is left out."""

from __future__ import annotations

from typing import Iterator

from mxtrain.models.rewrites.graph_rewrites import Graph, Shapes, input_itself, with_replaced


def without_dropout(graph: Graph, shapes: Shapes) -> Graph:
    """Return a graph without the dropout of training, which then passes on what comes in."""
    dropouts = (
        place
        for place in _of_first_outputs(graph, "Dropout")
        if graph["nodes"][place].get("attrs", {}).get("mode", "training") == "training"
    )
    return with_replaced(graph, dict.fromkeys(dropouts, input_itself))


def without_copies(graph: Graph, shapes: Shapes) -> Graph:
    """Return a graph without the copies that only gradients need (`graph_rewrites.gradient_copy`)."""
    return with_replaced(graph, dict.fromkeys(_of_first_outputs(graph, "_copy"), input_itself))


def _of_first_outputs(graph: Graph, operator: str) -> Iterator[int]:
    """Yield the positions of this operator's nodes but the graph's heads; each takes the first output of another."""
    heads = {head for head, *_ in graph["heads"]}
    for place, node in enumerate(graph["nodes"]):
        if node["op"] == operator and place not in heads and not node["inputs"][0][1]:
            yield place
