"""Graphs that answer and are not trained: what only training needs is left out, and layers of tokens are ours."""

from __future__ import annotations

from typing import Iterator

from mxtrain.models.rewrites import layer_norms
from mxtrain.models.rewrites.graph_rewrites import (
    Graph,
    Shapes,
    input_itself,
    outputs_of,
    with_replaced,
)
from mxtrain.models.rewrites.own import attentions, lstms, reductions


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
    heads = outputs_of(graph)
    for place, node in enumerate(graph["nodes"]):
        if node["op"] == operator and place not in heads and not node["inputs"][0][1]:
            yield place


# Of answers and of evaluations while training, in their order; `without_copies` comes behind them.
LAYERS_OF_TOKENS = (
    without_dropout,
    attentions.with_own_attention,
    layer_norms.with_own_layer_norms,
    reductions.with_fast_reductions,
    lstms.with_own_lstms,
)
