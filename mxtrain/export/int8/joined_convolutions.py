"""Convolutions joined to the norms, sums and ReLUs after them, by MXNet's own pass, for int8.

Owns what is not joined, as MXNet would compute it wrong. It joins what follows a convolution though something else
takes the convolution's output too, and gives that what it has joined. A joined convolution adds into the memory of a
sum's other operand: without a ReLU after the sum its numbers are int8, and an operand that is never negative is uint8,
of which all above half of its range is cut off. And a sum of a convolution and itself has no other operand.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Sequence

from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.export.int8.calibration import array_name, computed
from mxtrain.export.real_samples import Batch
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.runtime import mx

if TYPE_CHECKING:
    from mxtrain.runtime.types import Symbol

BACKEND = "MKLDNN_QUANTIZE"
JOINABLE = (
    "Convolution",
    "BatchNorm",
    "elemwise_add",
    "FullyConnected",
)  # in what MXNet joins, but for its end
CONVOLUTIONS = ("Convolution", "BatchNorm")  # what may be joined to a sum
BARRIER = "__end_of_joined"  # ends the names of nodes that fit no pattern of MXNet's

Graph = Mapping[str, Any]


def joined(graph: InferenceGraph, batches: Sequence[Batch]) -> Symbol:
    """Return the graph's Symbol with joined convolutions; `batches` show which arrays are never negative."""
    whole = json.loads(graph.symbol.tojson())
    for node in whole["nodes"]:
        if node["op"] == "relu":  # MXNet joins one that is called Activation
            node.update(op="Activation", attrs={"act_type": "relu"})
    ends = {*_forks(whole), *_before_unjoinable_sums(whole, graph, batches)}
    apart = graph_rewrites.with_replaced(whole, dict.fromkeys(ends, _add_with_barrier))
    return _without_barriers(mx.sym.load_json(json.dumps(apart)).get_backend_symbol(BACKEND))


def _forks(whole: Graph) -> Iterator[int]:
    """Yield the positions of the nodes that could be joined to what follows, but that several nodes take."""
    for place, users in graph_rewrites.users_of(whole).items():
        if whole["nodes"][place]["op"] in JOINABLE and len(users) > 1:
            yield place


def _before_unjoinable_sums(whole: Graph, graph: InferenceGraph, batches: Sequence[Batch]) -> Iterator[int]:
    """Yield the positions of the convolutions and norms before sums that they must not be joined to."""
    nodes, users = whole["nodes"], graph_rewrites.users_of(whole)
    arrays = set(graph.symbol.get_internals().list_outputs())
    operands: dict[int, list[str]] = {}  # of the sums that no ReLU follows
    for place, node in enumerate(nodes):
        if node["op"] == "elemwise_add" and not _is_relu_next(nodes, users.get(place, [])):
            inputs = [(nodes[source], output) for source, output, *_ in node["inputs"]]
            if any(source["op"] in CONVOLUTIONS for source, _ in inputs):
                operands[place] = [array_name(source, output, arrays) for source, output in inputs]
    never_negative = _never_negative(
        graph, sorted({name for both in operands.values() for name in both}), batches
    )
    for place, both in operands.items():
        if not never_negative.isdisjoint(both):
            yield from (
                source for source, *_ in nodes[place]["inputs"] if nodes[source]["op"] in CONVOLUTIONS
            )


def _is_relu_next(nodes: Sequence[Mapping[str, Any]], users: Sequence[int]) -> bool:
    return [nodes[user].get("attrs", {}).get("act_type") for user in users] == ["relu"]


def _never_negative(graph: InferenceGraph, names: Sequence[str], batches: Sequence[Batch]) -> set[str]:
    """Return which of the graph's arrays have no number below zero."""
    found = set(names)
    for arrays in computed(graph.symbol, graph, names, batches) if names else ():
        found -= {name for name, array in arrays.items() if array.min() < 0}
    return found


def _add_with_barrier(node: Mapping[str, Any], inputs: list[list[int]], add: graph_rewrites.AddNode) -> int:
    """Add a node and one behind it that computes nothing. An identity is none: MXNet takes it out before it joins."""
    entry = [add({**node, "inputs": inputs}), 0, 0]
    return add({"op": "BlockGrad", "name": f"{node['name']}{BARRIER}", "inputs": [entry]})


def _without_barriers(symbol: Symbol) -> Symbol:
    whole = json.loads(symbol.tojson())
    barriers = [place for place, node in enumerate(whole["nodes"]) if node["name"].endswith(BARRIER)]
    left_out = graph_rewrites.with_replaced(
        whole, dict.fromkeys(barriers, lambda _, inputs, __: inputs[0][0])
    )
    without: Symbol = mx.sym.load_json(json.dumps(left_out))
    return without
