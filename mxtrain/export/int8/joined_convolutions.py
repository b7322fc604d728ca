"""Convolutions joined to the norms, sums and ReLUs after them, by MXNet's own pass, for int8.

Owns what is not joined besides what never is (`models/rewrites/joined_layers.py`), as MXNet would compute it wrong. A
joined convolution adds into the memory of a sum's other operand: without a ReLU after the sum its numbers are int8, and
an operand that is never negative is uint8, of which all above half of its range is cut off.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Sequence

from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.export.int8.calibration import array_name, computed
from mxtrain.export.real_samples import Batch
from mxtrain.models.rewrites import graph_rewrites, joined_layers

if TYPE_CHECKING:
    from mxtrain.runtime.types import Symbol

BACKEND = "MKLDNN_QUANTIZE"
CONVOLUTIONS = ("Convolution", "BatchNorm")  # what may be joined to a sum

Graph = Mapping[str, Any]


def joined(graph: InferenceGraph, batches: Sequence[Batch]) -> Symbol:
    """Return the graph's Symbol with joined convolutions; `batches` show which arrays are never negative."""
    whole = joined_layers.with_activations(json.loads(graph.symbol.tojson()))
    ends = {*joined_layers.never_joined(whole), *_before_unjoinable_sums(whole, graph, batches)}
    return joined_layers.joined(whole, ends, BACKEND)


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
