"""The order of arrays around operators of ours with channels last: changed once where such layers begin and end."""

from __future__ import annotations

from typing import Dict, Tuple

from mxtrain.models.rewrites.graph_rewrites import AddNode

LAST, FIRST = "(0, 2, 3, 1)", "(0, 3, 1, 2)"  # the order of axes, from MXNet's and back
Entry = Tuple[int, int]  # an output: of which node, and which
Lasts = Dict[Entry, int]  # the new nodes that give an old output with channels last


def last(lasts: Lasts, entry: Entry, new: list[int], name: str, add: AddNode) -> list[int]:
    """Return an old output, now `new`, with channels last, for the node of this name."""
    if entry not in lasts:
        attributes = {"axes": LAST}
        order = {
            "op": "transpose",
            "name": f"{name}_last{len(lasts)}",
            "attrs": attributes,
            "inputs": [new],
        }
        lasts[entry] = add(order)
    return [lasts[entry], 0, 0]


def first(place: int, name: str, add: AddNode) -> int:
    """Return a node of this name that gives what a new node does in MXNet's order."""
    return add({"op": "transpose", "name": name, "attrs": {"axes": FIRST}, "inputs": [[place, 0, 0]]})
