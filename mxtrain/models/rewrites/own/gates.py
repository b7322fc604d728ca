"""Gates of squeeze and excitation in nets that answer, as one operator of ours."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, NamedTuple

from mxtrain.models.rewrites.graph_rewrites import AddNode, Inputs
from mxtrain.models.rewrites.norm_relus import OF_PICTURES
from mxtrain.models.rewrites.own.answering_graphs import Net
from mxtrain.runtime.own_operators import GATE


class Gate(NamedTuple):
    """A squeeze and excitation: what it takes, its two dense layers, and the hard sigmoid that it ends with."""

    source: list[int]
    first: int
    second: int
    end: int


def gates(net: Net) -> Iterator[Gate]:
    """Yield the hard sigmoids of what two convolutions make of the means of a picture's channels."""
    for end, node in enumerate(net.graph["nodes"]):
        if node["op"] != "hard_sigmoid":
            continue
        second = node["inputs"][0][0]
        relu = _source_by(net, second, "Convolution")
        first = _source_by(net, relu, "relu", "Activation")
        pooling = _source_by(net, first, "Convolution")
        if relu is None or first is None or pooling is None or not net.is_relu(relu):
            continue
        if _is_mean(net, pooling) and _is_dense(net, first) and _is_dense(net, second):
            yield Gate(net.node(pooling)["inputs"][0], first, second, end)


def _source_by(net: Net, place: int | None, *ops: str) -> int | None:
    """Return the node whose output a node of one of these operators takes, where that alone does."""
    if place is None or net.node(place)["op"] not in ops:
        return None
    source: int = net.node(place)["inputs"][0][0]
    return source if net.only_user(source) == place else None


def _is_mean(net: Net, place: int) -> bool:
    attributes = net.attributes(place)
    return (
        net.node(place)["op"] == "Pooling"
        and attributes.get("global_pool") == "True"
        and attributes.get("pool_type") == "avg"
        and len(net.shape(net.node(place)["inputs"][0])) == OF_PICTURES
    )


def _is_dense(net: Net, place: int) -> bool:
    return net.is_product(place) and net.attributes(place).get("no_bias", "False") == "False"


def inputs(net: Net, gate: Gate) -> list[list[int]]:
    """Return what a gate is computed of, or the means of its channels, and the weights and biases."""
    return [
        gate.source,
        *(entry for place in (gate.first, gate.second) for entry in net.node(place)["inputs"][1:]),
    ]


def operator(node: Mapping[str, Any], inputs: Inputs, add: AddNode, net: Net, gate: Gate) -> int:
    """Add the operator of a gate to a graph."""
    hard_sigmoid = net.attributes(gate.end)
    attributes = {
        "hidden": net.attributes(gate.first)["num_filter"],
        "slope": hard_sigmoid.get("alpha", "0.2"),
        "offset": hard_sigmoid.get("beta", "0.5"),
    }
    return add({"op": GATE, "name": node["name"], "attrs": attributes, "inputs": inputs})
