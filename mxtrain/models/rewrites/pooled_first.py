"""A mean over places behind a convolution of 1 x 1, as in a densenet's transitions, computed before it, for answers.

Both are linear, and one is over places and the other over channels, so their order shows in last bits alone. The
convolution has a quarter of the places then, of a pooling of 2 x 2.
"""

from __future__ import annotations

import functools
from typing import Any, Mapping

from mxtrain.models.rewrites.graph_rewrites import (
    AddNode,
    Graph,
    Inputs,
    Replacement,
    Shapes,
    input_itself,
    numbers,
    with_replaced,
)
from mxtrain.models.rewrites.own.answering_graphs import Net, net_of


def with_pooling_first(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph with such a pooling before its convolution."""
    net = net_of(graph, shapes)
    nodes = list(graph["nodes"])
    replacements: dict[int, Replacement | None] = {}
    for place, node in enumerate(graph["nodes"]):
        end = net.only_user(place)
        if end is None or not net.is_product(place) or not _is_mean(net, end):
            continue
        if (numbers(net.attributes(place), "stride") or (1, 1)) == (1, 1) and node["inputs"][0][1] == 0:
            nodes[end] = {**nodes[end], "inputs": node["inputs"]}
            replacements[place] = input_itself
            replacements[end] = functools.partial(_pooled_first, convolution=node)
    return with_replaced({**graph, "nodes": nodes}, replacements)


def _is_mean(net: Net, place: int) -> bool:
    """Return whether this is the mean of places that are all in the picture, for fewer places than there were."""
    attributes = net.attributes(place)
    return (
        net.node(place)["op"] == "Pooling"
        and attributes.get("pool_type") == "avg"
        and attributes.get("global_pool", "False") == "False"
        and attributes.get("pooling_convention", "valid") == "valid"
        and attributes.get("layout", "None") in ("None", "NCHW")
        and not any(numbers(attributes, "pad"))
        and max(numbers(attributes, "stride") or (1,)) > 1
    )


def _pooled_first(
    node: Mapping[str, Any], inputs: Inputs, add: AddNode, convolution: Mapping[str, Any]
) -> int:
    data, *others = inputs
    pooled = add({**node, "name": f"{convolution['name']}_pooled", "inputs": [data]})
    return add({**convolution, "name": node["name"], "inputs": [[pooled, 0, 0], *others]})
