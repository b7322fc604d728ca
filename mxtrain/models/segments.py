"""Where a net may be cut: its parts in the order of computation, and the cuts that save the most memory.

A net is taken apart as far as its children, and the children of its sequences, simply follow each other; that they do
is held against the net's own graph.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any, Sequence

from mxtrain.core.errors import UsageError
from mxtrain.models import graph
from mxtrain.runtime import mx


def split(net: Any, name: str, picture_shape: tuple[int, ...]) -> list[list[Any]]:
    """The net's parts in as many segments as are best; UsageError, by `name`, where it cannot be cut."""
    parts = _parts(net)
    if not _follow_each_other(parts, net, name):
        raise UsageError(
            f"--remat: {name} does more than its children in turn, so it cannot be cut; leave it out"
        )
    kept, handed_on = _sizes(parts, picture_shape)
    ends = cuts(kept, handed_on)
    segments = [parts[start:end] for start, end in zip([0, *ends], [*ends, len(parts)])]
    if len(segments) == 1:
        raise UsageError(f"--remat: no cut through {name} would save memory; leave it out")
    _refuse_shared(segments, name)
    return segments


def chain(parts: Sequence[Any], data: Any) -> Any:
    return functools.reduce(lambda passed, part: part(passed), parts, data)


def cuts(kept: Sequence[int], handed_on: Sequence[int]) -> list[int]:
    """Where to cut so that the peak is lowest: what all segments are handed, and the largest one's inside.

    `kept` is what each part computes, `handed_on` the last of it. A cut at n comes before part n. For every size that
    a segment may have, segments are filled as far as that allows.
    """
    largest = {sum(kept[start:end]) for start, end in itertools.combinations(range(len(kept) + 1), 2)}
    found = (_filled(kept, size) for size in sorted(largest))
    return min(found, key=lambda ends: _peak(kept, handed_on, ends))


def _filled(kept: Sequence[int], size: int) -> list[int]:
    ends, inside = [], 0
    for place, amount in enumerate(kept):
        if inside and inside + amount > size:
            ends.append(place)
            inside = 0
        inside += amount
    return ends


def _peak(kept: Sequence[int], handed_on: Sequence[int], ends: Sequence[int]) -> int:
    inside = [sum(kept[start:end]) for start, end in zip([0, *ends], [*ends, len(kept)])]
    return sum(handed_on[end - 1] for end in ends) + max(inside)


def _parts(net: Any) -> list[Any]:
    """The children that follow each other; only plain sequences are opened."""
    opened = type(net) is mx.gluon.nn.HybridSequential
    children = list(net._children.values())
    return [
        part
        for child in children
        for part in (_parts(child) if type(child) is mx.gluon.nn.HybridSequential else [child])
    ] or ([] if opened else [net])


def _follow_each_other(parts: Sequence[Any], net: Any, name: str) -> bool:
    """Whether the net is its parts in turn."""
    try:
        whole = graph.trace(net)
    except Exception as error:
        raise UsageError(
            f"--remat: {name} cannot be read as a graph ({type(error).__name__}); leave it out"
        ) from None
    try:
        return _essence(whole) == _essence(graph.trace(lambda data: chain(parts, data)))
    except Exception:  # parts that take or give something else than one array
        return False


def _essence(nodes: Sequence[graph.Node]) -> list[Any]:
    """What a graph computes: operators are numbered anew at each trace, parameters are not."""
    return [
        (node.operator, node.inputs, node.attributes, node.name if node.operator == "null" else "")
        for node in nodes
    ]


def _sizes(parts: Sequence[Any], shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """How many numbers each part computes for one picture, and how many of them it hands on."""
    kept, handed_on = [], []
    for part in parts:
        inside = part(mx.sym.var("data")).get_internals()
        _, shapes, _ = inside.infer_shape(data=shape)
        outputs = [
            each
            for name, each in zip(inside.list_outputs(), shapes)
            if name.endswith(("_output", "_output0"))
        ]
        numbers = [functools.reduce(int.__mul__, each, 1) for each in outputs]
        shape = outputs[-1]
        kept.append(sum(numbers))
        handed_on.append(numbers[-1])
    return kept, handed_on


def _refuse_shared(segments: Sequence[Sequence[Any]], name: str) -> None:
    """Each segment's backward pass writes its parameters' gradients, so none may be in two."""
    seen: set[str] = set()
    for segment in segments:
        names = {parameter for part in segment for parameter in part.collect_params()}
        if names & seen:
            raise UsageError(f"--remat: {name} uses {min(names & seen)} in several segments; leave it out")
        seen |= names
