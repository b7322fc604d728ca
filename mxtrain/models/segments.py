"""Cutting a net into segments for recomputation: its parts in order of computation, and the cuts that save most.

Owns the choice of cuts; `remat.py` computes with them. A net is taken apart as long as its children, and those of its
sequences, are computed one after the other, which is checked against the net's own graph.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any, Sequence

from mxtrain.core.errors import UsageError
from mxtrain.models import graph
from mxtrain.runtime import mx


def split(net: Any, name: str, picture_shape: tuple[int, ...]) -> list[list[Any]]:
    """Return the net's parts by segment, with the lowest peak memory; UsageError if `name` cannot be cut."""
    parts = _parts(net)
    if not _follow_each_other(parts, net, name):
        raise UsageError(
            f"--remat: {name} does more than its children in turn, so it cannot be cut; leave it out"
        )
    computed, outputs = _sizes(parts, picture_shape)
    ends = cuts(computed, outputs)
    segments = [parts[start:end] for start, end in zip([0, *ends], [*ends, len(parts)])]
    if len(segments) == 1:
        raise UsageError(f"--remat: no cut through {name} would save memory; leave it out")
    _refuse_shared(segments, name)
    return segments


def chain(parts: Sequence[Any], data: Any) -> Any:
    """Return the output of the last part, each part taking the output of the one before."""
    return functools.reduce(lambda passed, part: part(passed), parts, data)


def cuts(computed: Sequence[int], outputs: Sequence[int]) -> list[int]:
    """Return the cuts with the lowest peak: the inputs of all segments plus all that the largest one computes.

    `computed` has the size of all arrays that each part computes, `outputs` of the last one. A cut at n comes before
    part n. For every size that a segment may have, segments are filled up to it.
    """
    largest = {sum(computed[start:end]) for start, end in itertools.combinations(range(len(computed) + 1), 2)}
    found = (_filled(computed, size) for size in sorted(largest))
    return min(found, key=lambda ends: _peak(computed, outputs, ends))


def _filled(computed: Sequence[int], size: int) -> list[int]:
    ends, inside = [], 0
    for place, amount in enumerate(computed):
        if inside and inside + amount > size:
            ends.append(place)
            inside = 0
        inside += amount
    return ends


def _peak(computed: Sequence[int], outputs: Sequence[int], ends: Sequence[int]) -> int:
    inside = [sum(computed[start:end]) for start, end in zip([0, *ends], [*ends, len(computed)])]
    return sum(outputs[end - 1] for end in ends) + max(inside)


def _parts(net: Any) -> list[Any]:
    """Return the children in order; those that are plain sequences are replaced by their own children."""
    opened = type(net) is mx.gluon.nn.HybridSequential
    children = list(net._children.values())
    return [
        part
        for child in children
        for part in (_parts(child) if type(child) is mx.gluon.nn.HybridSequential else [child])
    ] or ([] if opened else [net])


def _follow_each_other(parts: Sequence[Any], net: Any, name: str) -> bool:
    """Return whether the net computes its parts one after the other."""
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
    """Return what a graph computes, without operators' names, which are numbered anew at each trace."""
    return [
        (node.operator, node.inputs, node.attributes, node.name if node.operator == "null" else "")
        for node in nodes
    ]


def _sizes(parts: Sequence[Any], shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Return the sizes of what each part computes for one picture of `shape`, and of its output."""
    computed, outputs = [], []
    for part in parts:
        inside = part(mx.sym.var("data")).get_internals()
        _, shapes, _ = inside.infer_shape(data=shape)
        computed_shapes = [
            each
            for name, each in zip(inside.list_outputs(), shapes)
            if name.endswith(("_output", "_output0"))
        ]
        sizes = [functools.reduce(int.__mul__, each, 1) for each in computed_shapes]
        shape = computed_shapes[-1]
        computed.append(sum(sizes))
        outputs.append(sizes[-1])
    return computed, outputs


def _refuse_shared(segments: Sequence[Sequence[Any]], name: str) -> None:
    """Refuse a parameter in two segments: each segment's backward pass writes its gradient."""
    seen: set[str] = set()
    for segment in segments:
        names = {parameter for part in segment for parameter in part.collect_params()}
        if names & seen:
            raise UsageError(f"--remat: {name} uses {min(names & seen)} in several segments; leave it out")
        seen |= names
