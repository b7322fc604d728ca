"""Attention by an operator of ours, which keeps the scores of a few tokens at a time in the cache.

MXNet's two products and its softmax write the scores of all tokens for all tokens, five times a step; ours computes
them twice, and none that is hidden from a whole block of tokens. It takes what is added to scores as an array without a
gradient: a mask that comparisons have made, or a zero where nothing is added. Any other leaves MXNet's. What is dropped
among shares a seed says, which MXNet's random numbers make anew at each step.
"""

from __future__ import annotations

import functools
from typing import Any, Mapping, NamedTuple

from mxtrain import native
from mxtrain.models.rewrites.graph_rewrites import (
    WITHOUT_GRADIENT,
    AddNode,
    Graph,
    Inputs,
    Shape,
    Shapes,
    gradient_copy,
    in_bfloat16,
    in_float32,
    outputs_of,
    shape_of,
    users_of,
    with_replaced,
)
from mxtrain.runtime.own_operators import ATTENTION, DROPPING_ATTENTION

SCORES, OUTPUT = "_contrib_interleaved_matmul_selfatt_qk", "_contrib_interleaved_matmul_selfatt_valatt"
SUMS = ("elemwise_add", "broadcast_add")
NOTHING = {"shape": "(1, 1, 1)"}  # is added to scores
# Two whole numbers once they are rounded down, of those below 2^24, which float32 has all.
SEED = {"low": "0", "high": "16777216", "shape": "(2,)", "dtype": "float32"}


def with_own_attention(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph with our attention in place of MXNet's where it can be; without the part in C the same graph."""
    nodes = graph["nodes"]
    if native.OPERATORS is None or all(node["op"] != OUTPUT for node in nodes):
        return graph
    users, are_float32 = users_of(graph), in_float32(graph) - in_bfloat16(graph)
    found = [_attention(graph, shapes, place, users, are_float32) for place in range(len(nodes))]
    # An attention's own inputs are the projections and what is added to scores.
    of_ours = [node if one is None else {**node, "inputs": one.inputs} for node, one in zip(nodes, found)]
    replacements = {
        place: functools.partial(_own, rate=one.rate) for place, one in enumerate(found) if one is not None
    }
    return with_replaced({**graph, "nodes": of_ours}, replacements) if replacements else graph


class Attention(NamedTuple):
    """An attention that ours can compute: its projections and, if there is something, what is added to scores."""

    inputs: Inputs
    rate: str  # of shares that are dropped, as the graph writes it; empty where none is


def _own(node: Mapping[str, Any], inputs: Inputs, add: AddNode, rate: str) -> int:
    projected, *added = inputs
    name, attributes = node["name"], {"heads": node["attrs"]["heads"]}
    copy = add(gradient_copy(f"{name}_projected", projected))
    if added:
        hidden = add({"op": "BlockGrad", "name": f"{name}_hidden", "attrs": {}, "inputs": added})
    else:
        hidden = add({"op": "_zeros", "name": f"{name}_hidden", "attrs": NOTHING, "inputs": []})
    own = [[copy, 0, 0], [hidden, 0, 0]]
    if not rate:
        return add({"op": ATTENTION, "name": name, "attrs": attributes, "inputs": own})
    drawn = add({"op": "_random_uniform", "name": f"{name}_drawn", "attrs": SEED, "inputs": []})
    for step in ("floor", "BlockGrad"):
        drawn = add({"op": step, "name": f"{name}_{step}", "attrs": {}, "inputs": [[drawn, 0, 0]]})
    own.append([drawn, 0, 0])
    return add({"op": DROPPING_ATTENTION, "name": name, "attrs": {**attributes, "rate": rate}, "inputs": own})


def _attention(
    graph: Graph, shapes: Shapes, place: int, users: Mapping[int, list[int]], are_float32: set[int]
) -> Attention | None:
    """Return the attention whose output is at `place`; None where MXNet's stays."""
    nodes = graph["nodes"]
    if nodes[place]["op"] != OUTPUT:
        return None
    projected, (shares, *_) = nodes[place]["inputs"]
    rate, dropped = _dropout_rate(nodes[shares]), shares
    if rate:
        shares = nodes[dropped]["inputs"][0][0]
    if nodes[shares]["op"] != "softmax" or not _is_plain(nodes[shares]):
        return None
    total = nodes[shares]["inputs"][0][0]
    is_sum = nodes[total]["op"] in SUMS
    summed = nodes[total]["inputs"] if is_sum else nodes[shares]["inputs"]
    (scores, *_), *added = sorted(summed, key=lambda entry: nodes[entry[0]]["op"] != SCORES)
    between = {dropped, shares, total, scores}
    shape = shape_of(graph, shapes, scores, 0)
    is_ours = (
        nodes[scores]["op"] == SCORES
        and nodes[scores]["inputs"][0] == projected
        and nodes[scores]["attrs"]["heads"] == nodes[place]["attrs"]["heads"]
        # Whatever else looks at scores needs them; of what else takes projections nothing was tried.
        and all(len(users[each]) == 1 for each in between)
        and not {*between, projected[0]} & outputs_of(graph)
        and sorted(users[projected[0]]) == sorted((scores, place))
        and projected[0] in are_float32
        and len(shape) == 3
        and all(_is_for_heads(shape_of(graph, shapes, *each[:2]), shape) for each in added)
        and all(_has_no_gradient(graph, each[0]) for each in added)
    )
    return Attention([projected, *added], rate) if is_ours else None


def _dropout_rate(node: Mapping[str, Any]) -> str:
    """Return the rate at which a node drops each number by itself while a net trains; empty if it is no such node."""
    attributes = node.get("attrs", {})
    is_dropout = (
        node["op"] == "Dropout"
        and attributes.get("mode", "training") == "training"
        and attributes.get("axes", "()") in ("()", "[]")
        and 0 < float(attributes.get("p", "0.5")) < 1
    )
    return str(attributes.get("p", "0.5")) if is_dropout else ""


def _is_for_heads(added: Shape, scores: Shape) -> bool:
    """Return whether there is one mask for all heads, or one for each."""
    return len(added) == 3 and added[1:] == scores[1:] and added[0] in (1, scores[0])


def _is_plain(softmax: Mapping[str, Any]) -> bool:
    attributes = softmax.get("attrs", {})
    return (
        len(softmax["inputs"]) == 1
        and attributes.get("axis", "-1") in ("-1", "2")
        and attributes.get("temperature", "None") == "None"
        and attributes.get("use_length", "False") == "False"
        and attributes.get("dtype", "None") in ("None", "float32")
    )


def _has_no_gradient(graph: Graph, place: int) -> bool:
    """Return whether no variable has a gradient by way of this node."""
    seen: set[int] = set()
    pending = [place]
    while pending:
        each = pending.pop()
        if each in seen or graph["nodes"][each]["op"] in WITHOUT_GRADIENT:
            continue
        if graph["nodes"][each]["op"] == "null":
            return False
        seen.add(each)
        pending += [source for source, *_ in graph["nodes"][each]["inputs"]]
    return True
