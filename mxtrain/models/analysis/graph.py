"""A net as a list of operators, read from MXNet's symbolic graph without running it.

Owns finding the ends of residual branches in it. All but `trace` computes on plain nodes.
"""

from __future__ import annotations

import json
from typing import NamedTuple, Sequence

from mxtrain.runtime import mx
from mxtrain.runtime.types import Block

ADDS = ("elemwise_add", "broadcast_add")
CONVOLUTIONS = ("Convolution", "FullyConnected", "Deconvolution")
NORMS = ("BatchNorm", "_contrib_SyncBatchNorm", "GroupNorm", "LayerNorm", "InstanceNorm")
# Operators that map zero to zero: a branch ends in its norm even if one of these follows. Of two factors the first is
# the branch, the other a gate (squeeze and excitation).
KEEP_ZERO = ("relu", "Activation", "LeakyReLU", "Dropout", "amp_cast", "amp_multicast", "Pooling", "_copy", "clip",
             "broadcast_mul", "elemwise_mul", "_mul_scalar", "_div_scalar")  # fmt: skip
NOT_ZERO_AT_ZERO = ("sigmoid", "log_sigmoid", "softrelu")  # activations that do not map zero to zero


class Node(NamedTuple):
    """An operator, or a variable whose `operator` is "null"; inputs are positions in the list, each with its output."""

    operator: str
    name: str
    inputs: tuple[tuple[int, int], ...]
    attributes: dict[str, str]


class ResidualBranches(NamedTuple):
    """The names of the scales of norms that residual branches end in, and how many branches end in none."""

    gammas: list[str]
    num_without: int


def trace(block: Block) -> list[Node]:
    """Return the nodes of a HybridBlock with one input, in topological order."""
    output = block(mx.sym.var("data"))
    return [
        Node(
            node["op"],
            node["name"],
            tuple((source, output) for source, output, _ in node["inputs"]),
            node.get("attrs", {}),
        )
        for node in json.loads(output.tojson())["nodes"]
    ]


def residual_branches(nodes: Sequence[Node]) -> ResidualBranches:
    """Return the residual branches: where a sum joins two paths from one node, the path with more convolutions.

    The other path is the shortcut: the identity, or one convolution that fits the shape. Sums of two longer paths, as
    where HRNet exchanges resolutions, are no residual branches.
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
    return ResidualBranches(gammas, num_without)


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


def _num_convolutions(nodes: Sequence[Node], positions: set[int]) -> int:
    return sum(nodes[place].operator in CONVOLUTIONS for place in positions)


def _last_gamma(nodes: Sequence[Node], place: tuple[int, int]) -> str | None:
    """Return the name of the scale of the norm that this output ends in; None if it does not end in one."""
    at, which = place
    while nodes[at].operator in KEEP_ZERO:
        if nodes[at].attributes.get("act_type") in NOT_ZERO_AT_ZERO:
            return None
        at, which = nodes[at].inputs[which if nodes[at].operator == "amp_multicast" else 0]
    node = nodes[at]
    if node.operator not in NORMS or node.attributes.get("fix_gamma") == "True":
        return None
    return nodes[node.inputs[1][0]].name
