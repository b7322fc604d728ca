"""Compiled segments that are given their weights: those whose graphs differ in names alone are one operator.

The layers of a GPT are alike, so they are compiled once, and what MXNet plans for them is made once.
"""

from __future__ import annotations

import json
from typing import Any, Mapping, NamedTuple, Sequence

from mxtrain.models.rewrites import graph_rewrites
from mxtrain.models.rewrites.graph_rewrites import Graph, Rewrite, Shapes
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

    def __init__(
        self, text: str, inputs: Sequence[str], queueing: Mapping[str, int], rewrites: Sequence[Rewrite]
    ):
        self._symbol = mx.sym.load_json(text)
        self._names: list[str] = self._symbol.list_inputs()
        self._inputs = [name for name in self._names if name in inputs]
        places = range(len(self._names))
        self._flags: list[tuple[str, Any]] = [
            ("data_indices", [place for place in places if self._names[place] in inputs]),
            ("param_indices", [place for place in places if self._names[place] not in inputs]),
            *queueing.items(),
        ]
        self._rewrites = rewrites
        self._judging = mx.nd.CachedOp(self._symbol, self._flags)
        self._training: dict[tuple[Any, ...], CompiledGraph] = {}  # by the shapes of inputs

    def __call__(self, arrays: NDArrays) -> NDArray:
        """Return what the segment makes of its inputs and weights, `arrays` by their names in its graph."""
        compiled = self._judging
        if mx.autograd.is_training():
            compiled = self._for_training({name: arrays[name].shape for name in self._inputs})
        computed: NDArray = compiled(*(arrays[name] for name in self._names))
        return computed

    def _for_training(self, shapes: Shapes) -> CompiledGraph:
        key = tuple(shapes.items())
        if key not in self._training:
            symbol = graph_rewrites.rewritten(self._symbol, shapes, self._rewrites)
            is_other = symbol is not self._symbol
            self._training[key] = mx.nd.CachedOp(symbol, self._flags) if is_other else self._judging
        return self._training[key]


class SegmentOperators:
    """The operators of a net's segments, each compiled once."""

    def __init__(self, queueing: Mapping[str, int], rewrites: Sequence[Rewrite]):
        self._queueing, self._rewrites = queueing, rewrites
        self._made: dict[str, SegmentOperator] = {}

    def of(self, graph: AnonymousGraph, inputs: Sequence[str]) -> SegmentOperator:
        """Return the operator of a graph."""
        if graph.text not in self._made:
            self._made[graph.text] = SegmentOperator(graph.text, inputs, self._queueing, self._rewrites)
        return self._made[graph.text]

    def __len__(self) -> int:
        return len(self._made)
