"""Convolutions and dense layers with what follows them as one operator, by MXNet's own pass, for nets that answer.

Owns what is not joined, as MXNet would compute it wrong. It joins what follows a convolution though something else
takes the convolution's output too, and gives that what it has joined; a sum of a convolution and itself has no other
operand; and a norm over another axis it takes for one of the channels. An operator so joined keeps the weights that it
first computed with, so a net has to stand still.
"""

from __future__ import annotations

import functools
import json
from typing import Any, Iterable, Iterator, Mapping

from mxtrain.models.rewrites import (
    clips,
    graph_rewrites,
    hard_sigmoids,
    inference_graphs,
    norm_relus,
    pooled_first,
)
from mxtrain.models.rewrites.graph_rewrites import AddNode, Graph, Inputs, Shapes, in_bfloat16
from mxtrain.models.rewrites.own import channel_runs, last_channels, mobile_blocks, packed_denses
from mxtrain.runtime import mx
from mxtrain.runtime.types import Symbol

FOR_FLOAT32 = "MKLDNN"  # MXNet's name of the pass
# In what is joined, but for its end.
JOINABLE = ("Convolution", "BatchNorm", "elemwise_add", "FullyConnected")
JOINED_BEFORE = ("_sg_", "_contrib_quantize")  # begin what nets in int8 have
# What is computed by our operators, in the order in which they are put in.
OWN_LAYERS = (
    *inference_graphs.LAYERS_OF_TOKENS,
    inference_graphs.without_copies,
    pooled_first.with_pooling_first,
    hard_sigmoids.with_hard_sigmoids,
    mobile_blocks.with_mobile_blocks,
    last_channels.with_last_channels,
    channel_runs.with_judged_runs,
    packed_denses.with_packed_denses,
)
BARRIER = "__end_of_joined"  # ends the names of nodes that fit no pattern of MXNet's


def for_answers(output: Symbol, input_shapes: Shapes) -> Symbol | None:
    """Return a net's Symbol with joined layers, to compute answers by; None of one in bfloat16 or int8.

    Args:
        output: The net's Symbol, in which nothing was joined yet.
        input_shapes: The shapes of its inputs, by their names, as far as they are known.

    Returns:
        A Symbol of the same inputs, perhaps in another order, without gradients.
    """
    graph, shapes = graph_rewrites.nodes_and_shapes(output, input_shapes)
    if in_bfloat16(graph) or any(node["op"].startswith(JOINED_BEFORE) for node in graph["nodes"]):
        return None
    own = functools.reduce(lambda each, rewrite: rewrite(each, shapes), OWN_LAYERS, graph)
    whole = with_activations(own)
    nodes = whole["nodes"]
    norms = [node["name"] for place, node in enumerate(nodes) if norm_relus.is_norm(whole, shapes, place)]
    made = json.loads(joined(whole, never_joined(whole), FOR_FLOAT32).tojson())
    made = norm_relus.with_judged_relus(made, norms)  # that are before convolutions
    return mx.sym.load_json(json.dumps(clips.with_fast_clips(made, {})))


def joined(whole: Graph, ends: Iterable[int], backend: str) -> Symbol:
    """Return the Symbol of a graph as MXNet's pass of this name joins its layers, but for those at `ends`."""
    apart = graph_rewrites.with_replaced(whole, dict.fromkeys(ends, _add_with_barrier))
    return _without_barriers(mx.sym.load_json(json.dumps(apart)).get_backend_symbol(backend))


def never_joined(whole: Graph) -> Iterator[int]:
    """Yield the positions of the nodes that could be joined to what follows, but that several nodes take.

    And of those that a norm over another axis than the channels' follows.
    """
    nodes, outputs = whole["nodes"], graph_rewrites.outputs_of(whole)
    for place, users in graph_rewrites.users_of(whole).items():
        is_fork = len(users) > 1 or place in outputs
        if nodes[place]["op"] in JOINABLE and (is_fork or _is_of_other_axis(nodes[users[0]])):
            yield place


def _is_of_other_axis(node: Mapping[str, Any]) -> bool:
    return bool(node["op"] == "BatchNorm" and node.get("attrs", {}).get("axis", "1") != "1")


def with_activations(graph: Graph) -> Graph:
    """Return the graph with each ReLU as MXNet joins it, called Activation."""
    relu = {"op": "Activation", "attrs": {"act_type": "relu"}}
    return {**graph, "nodes": [{**node, **relu} if node["op"] == "relu" else node for node in graph["nodes"]]}


def _add_with_barrier(node: Mapping[str, Any], inputs: Inputs, add: AddNode) -> int:
    """Add a node and one behind it that computes nothing. An identity is none: MXNet takes it out before it joins."""
    entry = [add({**node, "inputs": inputs}), 0, 0]
    return add({"op": "BlockGrad", "name": f"{node['name']}{BARRIER}", "inputs": [entry]})


def _without_barriers(symbol: Symbol) -> Symbol:
    whole = json.loads(symbol.tojson())
    barriers = [place for place, node in enumerate(whole["nodes"]) if node["name"].endswith(BARRIER)]
    left_out = graph_rewrites.with_replaced(whole, dict.fromkeys(barriers, graph_rewrites.input_itself))
    without: Symbol = mx.sym.load_json(json.dumps(left_out))
    return without
