"""A net as a list of operators, read without running it: where do its residual branches end?

Owns reading MXNet's symbolic graph; beyond `trace` it is arithmetic on plain nodes.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Sequence

from mxtrain.runtime import mx

ADDS = ("elemwise_add", "broadcast_add")
CONVOLUTIONS = ("Convolution", "FullyConnected", "Deconvolution")
NORMS = ("BatchNorm", "_contrib_SyncBatchNorm", "GroupNorm", "LayerNorm", "InstanceNorm")
# What makes zeros of zeros, so that a branch ends in its norm even where one of these comes after it. Of two factors
# the first is the branch, the other a gate (squeeze and excitation).
KEEP_ZERO = ("relu", "Activation", "LeakyReLU", "Dropout", "amp_cast", "amp_multicast", "Pooling", "_copy", "clip",
             "broadcast_mul", "elemwise_mul", "_mul_scalar", "_div_scalar")  # fmt: skip
MOVE_ZERO = ("sigmoid", "log_sigmoid", "softrelu")  # activations that do not


class Node(NamedTuple):
    """An operator, or a variable whose `operator` is "null"; inputs are positions in the list, each with its output."""

    operator: str
    name: str
    inputs: tuple[tuple[int, int], ...]
    attributes: dict[str, str]


class Branches(NamedTuple):
    """The scales of the norms that residual branches end in, and how many branches end in none."""

    gammas: list[str]
    num_without: int


def trace(block: Any) -> list[Node]:
    """What a HybridBlock computes from one array, in an order in which it could be computed."""
    output = block(mx.sym.var("data"))
    return [
        Node(
            node["op"],
            node["name"],
            tuple((place, which) for place, which, _ in node["inputs"]),
            node.get("attrs", {}),
        )
        for node in json.loads(output.tojson())["nodes"]
    ]


def residual_branches(nodes: Sequence[Node]) -> Branches:
    """Where two ways from one place meet in a sum, the way with more convolutions is the branch.

    The other is the shortcut: nothing at all, or one convolution that fits the shape. Sums of two longer ways, as where
    HRNet exchanges resolutions, are no residual branches.
    """
    gammas, num_without = [], 0
    for node in nodes:
        if node.operator not in ADDS:
            continue
        branch = _branch(nodes, *node.inputs)
        if branch is None:
            continue
        gamma = _last_gamma(nodes, branch)
        if gamma is None:
            num_without += 1
        elif gamma not in gammas:
            gammas.append(gamma)
    return Branches(gammas, num_without)


def _branch(nodes: Sequence[Node], first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int] | None:
    before_first, before_second = _ancestors(nodes, first[0]), _ancestors(nodes, second[0])
    own_first = _num_convolutions(nodes, before_first - before_second)
    own_second = _num_convolutions(nodes, before_second - before_first)
    if min(own_first, own_second) > 1 or own_first == own_second:
        return None
    return first if own_first > own_second else second


def _ancestors(nodes: Sequence[Node], place: int) -> set[int]:
    found, left = {place}, [place]
    while left:
        new = {inside for inside, _ in nodes[left.pop()].inputs} - found
        found |= new
        left.extend(new)
    return found


def _num_convolutions(nodes: Sequence[Node], places: set[int]) -> int:
    return sum(nodes[place].operator in CONVOLUTIONS for place in places)


def _last_gamma(nodes: Sequence[Node], place: tuple[int, int]) -> str | None:
    """The scale of the norm that this output ends in, as a parameter's name."""
    at, which = place
    while nodes[at].operator in KEEP_ZERO:
        if nodes[at].attributes.get("act_type") in MOVE_ZERO:
            return None
        at, which = nodes[at].inputs[which if nodes[at].operator == "amp_multicast" else 0]
    node = nodes[at]
    if node.operator not in NORMS or node.attributes.get("fix_gamma") == "True":
        return None
    return nodes[node.inputs[1][0]].name
