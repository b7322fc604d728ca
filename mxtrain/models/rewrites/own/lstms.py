"""LSTM layers of nets that answer or are judged, by an operator of ours that reads weights in the order of its panels.

oneDNN's layer of few samples waits for memory: two layers of 512 numbers took 24 ms for one sequence of 64 in the place
of 7. Answers, whose weights stay, have these put in order once. Layers of both directions, GRUs, layers that begin with
states of their own or pass these on, and lengths of samples leave MXNet's.
"""

from __future__ import annotations

import functools
from typing import Any, Mapping

from mxtrain import native
from mxtrain.models.rewrites.graph_rewrites import (
    AddNode,
    Graph,
    Inputs,
    Replacement,
    Shapes,
    in_bfloat16,
    in_float32,
    shape_of,
    with_replaced,
)
from mxtrain.runtime.own_operators import LSTM, LSTM_WEIGHTS

LAYERS_OF_MXNET = "RNN"
# What our layers are, where a node says so.
PLAIN = {
    "mode": ("lstm",),
    "bidirectional": ("False", "0"),
    "projection_size": ("None",),
    "use_sequence_length": ("False", "0"),
    "lstm_state_clip_min": ("None",),
    "lstm_state_clip_max": ("None",),
}


def with_own_lstms(graph: Graph, shapes: Shapes) -> Graph:
    """Return a graph that answers with our operator in such layers; without the part in C the same graph."""
    if native.OPERATORS is None or all(node["op"] != LAYERS_OF_MXNET for node in graph["nodes"]):
        return graph
    wide = in_float32(graph) - in_bfloat16(graph)
    of_states = {source for source, output, *_ in _entries(graph) if output}
    return with_replaced(graph, {place: _replacement(graph, shapes, place) for place in wide - of_states})


def _entries(graph: Graph) -> Inputs:
    return [*graph["heads"], *(entry for node in graph["nodes"] for entry in node["inputs"])]


def _replacement(graph: Graph, shapes: Shapes, position: int) -> Replacement | None:
    """Return what replaces the node at `position`; None if it stays."""
    nodes = graph["nodes"]
    node = nodes[position]
    if node["op"] != LAYERS_OF_MXNET:
        return None
    attributes, (data, _, *states) = node["attrs"], node["inputs"]
    shape = shape_of(graph, shapes, *data[:2])
    is_ours = (
        all(attributes.get(key, values[0]) in values for key, values in PLAIN.items())
        and len(states) == 2
        and all(nodes[source]["op"] == "_zeros" for source, *_ in states)
        and len(shape) == 3
        and min(shape) > 0
    )
    return functools.partial(_own, inputs_of_first=shape[2]) if is_ours else None


def _own(node: Mapping[str, Any], inputs: Inputs, add: AddNode, inputs_of_first: int) -> int:
    data, parameters, *_ = inputs
    sizes = {
        "inputs": str(inputs_of_first),
        "hidden": node["attrs"]["state_size"],
        "layers": node["attrs"]["num_layers"],
    }
    name = node["name"]
    weights = add({"op": LSTM_WEIGHTS, "name": f"{name}_weights", "attrs": sizes, "inputs": [parameters]})
    return add({"op": LSTM, "name": name, "attrs": sizes, "inputs": [data, [weights, 0, 0]]})
