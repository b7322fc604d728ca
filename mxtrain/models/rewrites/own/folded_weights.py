"""Weights of convolutions with channels last of nets that answer, with norms folded in, by an operator of ours."""

from __future__ import annotations

from typing import Mapping

from mxtrain.models.rewrites.graph_rewrites import AddNode, Inputs
from mxtrain.models.rewrites.own import channel_runs
from mxtrain.models.rewrites.own.answering_graphs import Net
from mxtrain.runtime.own_operators import CONVOLUTION_WEIGHTS


def sources(net: Net, convolution: int, norm: int | None) -> list[list[int]]:
    """Return what weights are made of: a convolution's and its bias, and those of the norm behind it, if any."""
    of_norm = [] if norm is None else net.node(norm)["inputs"][1:]
    return [*net.node(convolution)["inputs"][1:], *of_norm]


def sizes(net: Net, convolution: int) -> dict[str, str]:
    """Return a convolution's kernel, stride, border and outputs, as operators of ours take them."""
    attributes = net.attributes(convolution)
    return {**channel_runs.sizes_of_convolution(attributes), "outputs": str(attributes["num_filter"])}


def add_weights(
    net: Net, convolution: int, norm: int | None, inputs: Inputs, attributes: Mapping[str, str], add: AddNode
) -> list[int]:
    """Add the operator that makes weights of `inputs`, the new ones of `sources`, and return its output."""
    _, in_channels, *_ = net.shape(net.node(convolution)["inputs"][1])
    of_norm = {} if norm is None else channel_runs.constants_of_norm(net.attributes(norm))
    weights = {
        "op": CONVOLUTION_WEIGHTS[len(net.node(convolution)["inputs"]) > 2, norm is not None],
        "name": f"{net.node(convolution)['name']}_weights",  # that of an end may be another's too
        "attrs": {**sizes(net, convolution), "inputs": str(in_channels), **of_norm, **attributes},
        "inputs": inputs,
    }
    return [add(weights), 0, 0]
