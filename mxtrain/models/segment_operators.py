"""Compiled segments that are given their weights: those whose graphs differ in names alone are one operator.

The layers of a GPT are alike, so they are compiled once, and what MXNet plans for them is made once.
"""

from __future__ import annotations

import json
from typing import Any, Mapping, NamedTuple, Sequence

from mxtrain.models.compiled_graphs import TRAINING, purpose_of_now
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.models.rewrites.graph_rewrites import ByPurpose, Graph, Shapes
from mxtrain.runtime import mx
from mxtrain.runtime.types import CompiledGraph, NDArray, NDArrays

# What a variable is drawn from and moved by, which is no concern of who computes with it.
OF_TRAINING = ("__init__", "__lr_mult__", "__wd_mult__")


class AnonymousGraph(NamedTuple):
    """A graph whose names tell nothing, as text, and what its weights were called."""

    text: str
    weights: Mapping[str, str]  # by their names in the text


def anonymous(graph: Graph, inputs: Sequence[str]) -> AnonymousGraph:
    """Return the graph with the names of `inputs` alone kept."""
    nodes, weights = [], {}
    for place, node in enumerate(graph["nodes"]):
        kept = {**node, "attrs": {k: v for k, v in node.get("attrs", {}).items() if k not in OF_TRAINING}}
        if node["name"] not in inputs:
            kept["name"] = f"node{place}"
            if node["op"] == "null":
                weights[kept["name"]] = node["name"]
        nodes.append(kept)
    return AnonymousGraph(json.dumps({**graph, "nodes": nodes}, sort_keys=True), weights)


class SegmentOperator:
    """A segment's graph, compiled without static memory: that would stay when its weights have gone."""

    def __init__(self, text: str, inputs: Sequence[str], queueing: Mapping[str, int], by_purpose: ByPurpose):
        self._symbol = mx.sym.load_json(text)
        self._names: list[str] = self._symbol.list_inputs()
        self._inputs = [name for name in self._names if name in inputs]
        places = range(len(self._names))
        self._flags: list[tuple[str, Any]] = [
            ("data_indices", [place for place in places if self._names[place] in inputs]),
            ("param_indices", [place for place in places if self._names[place] not in inputs]),
            *queueing.items(),
        ]
        self._by_purpose = dict(by_purpose)
        self._as_it_is = mx.nd.CachedOp(self._symbol, self._flags)
        self._compiled: dict[
            tuple[Any, ...], CompiledGraph
        ] = {}  # by purposes and, for training, inputs' shapes

    def __call__(self, arrays: NDArrays) -> NDArray:
        """Return what the segment makes of its inputs and weights, `arrays` by their names in its graph."""
        purpose, shapes = purpose_of_now(), {name: arrays[name].shape for name in self._inputs}
        key = (purpose, *(shapes.items() if purpose == TRAINING else ()))
        if key not in self._compiled:
            self._compiled[key] = self._compiled_for(purpose, shapes)
        computed: NDArray = self._compiled[key](*(arrays[name] for name in self._names))
        return computed

    def _compiled_for(self, purpose: str, shapes: Shapes) -> CompiledGraph:
        symbol = graph_rewrites.rewritten_for(purpose, self._symbol, shapes, self._by_purpose)
        return self._as_it_is if symbol is self._symbol else mx.nd.CachedOp(symbol, self._flags)


class SegmentOperators:
    """The operators of a net's segments, each compiled once."""

    def __init__(self, queueing: Mapping[str, int], by_purpose: ByPurpose):
        self._queueing, self._by_purpose = queueing, by_purpose
        self._made: dict[str, SegmentOperator] = {}

    def of(self, graph: AnonymousGraph, inputs: Sequence[str]) -> SegmentOperator:
        """Return the operator of a graph."""
        if graph.text not in self._made:
            self._made[graph.text] = SegmentOperator(graph.text, inputs, self._queueing, self._by_purpose)
        return self._made[graph.text]

    def __len__(self) -> int:
        return len(self._made)
