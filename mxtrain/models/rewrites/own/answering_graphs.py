"""A graph that answers, as rewrites for answers look at it."""

from __future__ import annotations

import json
from typing import Any, Collection, Mapping, NamedTuple

from mxtrain.models.rewrites import norm_relus
from mxtrain.models.rewrites.graph_rewrites import (
    Graph,
    Shapes,
    are_float32,
    numbers,
    outputs_of,
    shape_of,
    users_of,
)
from mxtrain.runtime import mx


class Net(NamedTuple):
    """A graph, the shapes of its outputs, by which nodes they are taken, and which are the graph's."""

    graph: Graph
    shapes: Shapes
    users: Mapping[int, list[int]]
    outputs: set[int]

    def node(self, place: int) -> Mapping[str, Any]:
        node: Mapping[str, Any] = self.graph["nodes"][place]
        return node

    def only_user(self, place: int) -> int | None:
        users = self.users.get(place, [])
        return users[0] if len(users) == 1 and place not in self.outputs else None

    def attributes(self, place: int) -> Mapping[str, Any]:
        attributes: Mapping[str, Any] = self.node(place).get("attrs", {})
        return attributes

    def entry(self, place: int, at: int) -> tuple[int, int]:
        """Return an input of a node: an output, of which node and which."""
        source, output, *_ = self.node(place)["inputs"][at]
        return source, output

    def is_taken_besides(self, takers: Collection[int | None], place: int) -> bool:
        """Return whether something but these nodes takes what a node gives."""
        return place in self.outputs or not set(takers).issuperset(self.users.get(place, ()))

    def shape(self, entry: list[int]) -> tuple[int, ...]:
        return tuple(shape_of(self.graph, self.shapes, *entry[:2]))

    def is_relu(self, place: int) -> bool:
        return norm_relus.is_relu(self.node(place))

    def is_convolution(self, place: int) -> bool:
        """Return whether this is a convolution of all channels, in MXNet's order, with weights in float32."""
        node, attributes = self.node(place), self.attributes(place)
        return (
            node["op"] == "Convolution"
            and int(attributes.get("num_group", 1)) == 1
            and attributes.get("layout", "None") in ("None", "NCHW")
            and are_float32(self.node(node["inputs"][1][0]))
        )

    def is_product(self, place: int) -> bool:
        """Return whether this is such a convolution, of each place by itself."""
        attributes = self.attributes(place)
        return (
            self.is_convolution(place)
            and numbers(attributes, "kernel") == (1, 1)
            and not any(numbers(attributes, "pad"))
        )


def net_of(graph: Graph, shapes: Shapes) -> Net:
    """Return a graph as a net."""
    return Net(graph, shapes, users_of(graph), outputs_of(graph))


def without_unused(graph: Graph) -> Graph:
    """Return the graph without the nodes whose outputs nothing takes."""
    found: Graph = json.loads(mx.sym.load_json(json.dumps(graph)).tojson(remove_amp_cast=False))
    return found
