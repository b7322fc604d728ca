"""Gates of squeeze and excitation in nets that answer, which operators of ours compute."""

from __future__ import annotations

from typing import Iterator, NamedTuple

from mxtrain.models.rewrites.norm_relus import OF_PICTURES
from mxtrain.models.rewrites.own.answering_graphs import Net


class Gate(NamedTuple):
    """A squeeze and excitation: what it takes, its means, two dense layers, and the hard sigmoid that it ends with."""

    source: list[int]
    means: int
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
        if is_mean(net, pooling) and _is_dense(net, first) and _is_dense(net, second):
            yield Gate(net.node(pooling)["inputs"][0], pooling, first, second, end)


def _source_by(net: Net, place: int | None, *ops: str) -> int | None:
    """Return the node whose output a node of one of these operators takes, where that alone does."""
    if place is None or net.node(place)["op"] not in ops:
        return None
    source: int = net.node(place)["inputs"][0][0]
    return source if net.only_user(source) == place else None


def is_mean(net: Net, place: int) -> bool:
    """Return whether this node gives the means of a picture's channels."""
    attributes = net.attributes(place)
    return (
        net.node(place)["op"] == "Pooling"
        and attributes.get("global_pool") == "True"
        and attributes.get("pool_type") == "avg"
        and len(net.shape(net.node(place)["inputs"][0])) == OF_PICTURES
    )


def _is_dense(net: Net, place: int) -> bool:
    return net.is_product(place) and net.attributes(place).get("no_bias", "False") == "False"


def weights(net: Net, gate: Gate) -> list[list[int]]:
    """Return the weights and biases of a gate."""
    return [entry for place in (gate.first, gate.second) for entry in net.node(place)["inputs"][1:]]


def attributes(net: Net, gate: Gate) -> dict[str, str]:
    """Return the attributes of a gate as operators of ours take them."""
    hard_sigmoid = net.attributes(gate.end)
    return {
        "hidden": str(net.attributes(gate.first)["num_filter"]),
        "slope": str(hard_sigmoid.get("alpha", "0.2")),
        "offset": str(hard_sigmoid.get("beta", "0.5")),
    }
