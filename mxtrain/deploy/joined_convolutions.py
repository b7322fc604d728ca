"""Convolutions joined to the norms, sums and ReLUs after them, by MXNet's own pass, for int8.

Owns which sums are not joined, as MXNet would compute them wrong. A joined convolution adds into the memory of the
sum's other operand. Without a ReLU after the sum its numbers are int8, and an operand that is never negative is
uint8: of that all above half of its range is cut off. And a sum of a convolution and itself has no other operand.
"""

from __future__ import annotations

import json
from typing import Any, Iterator, Mapping, Sequence

from mxtrain.deploy.calibration import array_name, computed
from mxtrain.deploy.inference_graph import InferenceGraph
from mxtrain.deploy.real_samples import Batch
from mxtrain.models import graph_rewrites
from mxtrain.runtime import mx

BACKEND = "MKLDNN_QUANTIZE"
CONVOLUTIONS = ("Convolution", "BatchNorm")  # what ends one that can be joined to a sum
APART = "__kept_apart"  # ends the names of the copies that keep a sum out of MXNet's pattern

Graph = Mapping[str, Any]


def joined(graph: InferenceGraph, batches: Sequence[Batch]) -> Any:
    """Return the graph's Symbol with joined convolutions; `batches` show which arrays are never negative."""
    whole = json.loads(graph.symbol.tojson())
    for node in whole["nodes"]:
        if node["op"] == "relu":  # MXNet joins one that is called Activation
            node.update(op="Activation", attrs={"act_type": "relu"})
    apart = list(_unjoinable_sums(whole, graph, batches))
    symbol = mx.sym.load_json(json.dumps(_with_copies(whole, apart))).get_backend_symbol(BACKEND)
    return _without_copies(symbol) if apart else symbol


def _unjoinable_sums(whole: Graph, graph: InferenceGraph, batches: Sequence[Batch]) -> Iterator[int]:
    """Yield the positions of the sums that must not be joined to a convolution."""
    nodes, users = whole["nodes"], graph_rewrites.users_of(whole)
    arrays = set(graph.symbol.get_internals().list_outputs())
    operands: dict[int, list[str]] = {}  # of the sums that no ReLU follows
    for place, node in enumerate(nodes):
        sources = [source for source, *_ in node["inputs"]]
        if node["op"] != "elemwise_add" or not any(nodes[each]["op"] in CONVOLUTIONS for each in sources):
            continue
        if node["inputs"][0] == node["inputs"][1]:
            yield place
        elif not _is_relu_next(nodes, users.get(place, [])):
            operands[place] = [
                array_name(nodes[source], output, arrays) for source, output, *_ in node["inputs"]
            ]
    names = sorted({name for both in operands.values() for name in both})
    never_negative = _never_negative(graph, names, batches)
    yield from (place for place, both in operands.items() if not never_negative.isdisjoint(both))


def _is_relu_next(nodes: Sequence[Mapping[str, Any]], users: Sequence[int]) -> bool:
    activations = [nodes[user].get("attrs", {}).get("act_type") for user in users]
    return activations == ["relu"]


def _never_negative(graph: InferenceGraph, names: Sequence[str], batches: Sequence[Batch]) -> set[str]:
    """Return which of the graph's arrays have no number below zero."""
    found = set(names)
    for arrays in computed(graph.symbol, graph, names, batches) if names else ():
        found -= {name for name, array in arrays.items() if array.min() < 0}
    return found


def _with_copies(whole: Graph, sums: Sequence[int]) -> Graph:
    """Return the graph with copies between convolutions and these sums, which are not joined then."""
    kinds = [node["op"] for node in whole["nodes"]]

    def add_copies(place: int) -> graph_rewrites.Replacement:
        are_convolutions = [kinds[source] in CONVOLUTIONS for source, *_ in whole["nodes"][place]["inputs"]]

        def add_to(node: Mapping[str, Any], inputs: list[list[int]], add: graph_rewrites.AddNode) -> int:
            name = f"{node['name']}{{}}{APART}"
            copied = [
                [add({"op": "BlockGrad", "name": name.format(number), "inputs": [entry]}), 0, 0]
                if is_one
                else entry
                for number, (entry, is_one) in enumerate(zip(inputs, are_convolutions))
            ]
            return add({**node, "inputs": copied})

        return add_to

    return graph_rewrites.with_replaced(whole, {place: add_copies(place) for place in sums})


def _without_copies(symbol: Any) -> Any:
    whole = json.loads(symbol.tojson())
    copies = [place for place, node in enumerate(whole["nodes"]) if node["name"].endswith(APART)]
    # A convolution, joined or not, has one output.
    left_out = graph_rewrites.with_replaced(whole, dict.fromkeys(copies, lambda _, inputs, __: inputs[0][0]))
    return mx.sym.load_json(json.dumps(left_out))
