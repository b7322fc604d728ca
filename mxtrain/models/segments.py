"""Cutting a net's graph into segments for recomputation, where that saves most memory.

Owns the choice of cuts, on plain nodes; `remat.py` computes with them. A graph can be cut where one value alone goes
on: all that comes after needs nothing else of what came before, and no weight is used on both sides. What has neither
weights nor gradients, as which tokens see each other, does not count: each segment that needs it computes it from the
net's input.
"""

from __future__ import annotations

import itertools
from typing import Mapping, Sequence

from mxtrain.models.autocast.operator_times import num_elements
from mxtrain.models.rewrites.graph_rewrites import WITHOUT_GRADIENT, Graph, Shapes, in_bfloat16, shape_of
from mxtrain.models.rewrites.own.channel_runs import inside_runs

HANDED_ON = "handed on"  # the name of a segment's input
WITHOUT_MEMORY = ("null", "Reshape", "Flatten", "expand_dims", "_copy", "squeeze")  # they show another one's
FLOAT32_BYTES, BFLOAT16_BYTES = 4, 2


def split(graph: Graph, shapes: Shapes, data: str) -> list[Graph]:
    """Return the segments with the lowest peak memory, each a graph of the variable `HANDED_ON`, and of weights.

    `data` is the name of the graph's input, which some segments may have as a variable too; `shapes` are those of the
    nodes' outputs.
    """
    first = place_of(graph, data)
    passages = passages_of(graph, shapes, first)
    ends = [passages[place - 1] for place in cuts(*sizes(graph, shapes, first, passages))]
    return _up_to(graph, first, ends)


def split_by_weights(
    graph: Graph, shapes: Shapes, data: str, weights: Mapping[str, int], largest: int
) -> list[Graph]:
    """Return as `split` does few segments whose `weights`, bytes by name, are `largest` together, or one part's."""
    first = place_of(graph, data)
    passages = passages_of(graph, shapes, first)
    parts = [
        sum(weights.get(node["name"], 0) for node in part["nodes"]) for part in _up_to(graph, first, passages)
    ]
    return _up_to(graph, first, [passages[place - 1] for place in _filled(parts, largest)])


def _up_to(graph: Graph, first: int, ends: Sequence[int]) -> list[Graph]:
    """Return the segments from the node at `first` up to each of `ends`, and to the graph's head."""
    heads = [*([each, 0, 0] for each in ends), graph["heads"][0]]
    return [between(graph, start, head) for start, head in zip([first, *ends], heads)]


def whole(graph: Graph, data: str) -> Graph:
    """Return the graph as one segment, a graph of the same variables."""
    head, *_ = graph["heads"]
    return between(graph, place_of(graph, data), head)


def lowest_peak(graph: Graph, shapes: Shapes, data: str) -> int:
    """Return the memory that the segments need."""
    first = place_of(graph, data)
    computed, handed_on = sizes(graph, shapes, first, passages_of(graph, shapes, first))
    return peak(computed, handed_on, cuts(computed, handed_on))


def inside_and_handed_on(graph: Graph, shapes: Shapes, data: str) -> list[tuple[int, int]]:
    """Return of each segment the bytes of all that it computes, and of what it passes to the next."""
    first = place_of(graph, data)
    computed, handed_on = sizes(graph, shapes, first, passages_of(graph, shapes, first))
    ends = [*cuts(computed, handed_on), len(computed)]
    return [(sum(computed[start:end]), handed_on[end - 1]) for start, end in zip([0, *ends], ends)]


def place_of(graph: Graph, data: str) -> int:
    """Return the position of the node of this name."""
    return next(place for place, node in enumerate(graph["nodes"]) if node["name"] == data)


def num_bytes(graph: Graph, shapes: Shapes) -> int:
    """Return about how much memory all that a graph computes takes, as none of it may go before the backward pass."""
    narrow = in_bfloat16(graph)
    return sum(
        num_elements(shape_of(graph, shapes, place, 0))
        * (BFLOAT16_BYTES if place in narrow else FLOAT32_BYTES)
        for place, node in enumerate(graph["nodes"])
        if node["op"] not in WITHOUT_MEMORY
    )


def passages_of(graph: Graph, shapes: Shapes, data: int) -> list[int]:
    """Return the positions of the nodes whose value alone goes on after them, outside of what becomes one operator."""
    nodes = graph["nodes"]
    of_data = _reached(graph, data)
    spans = _spans(graph, of_data, _repeated(graph, data))
    num_open, change = 0, [0] * (len(nodes) + 1)  # values that are there at a place and needed after it
    for first, last in spans.values():
        change[first] += 1
        change[last] -= 1
    others = {
        source for node in nodes for source, output, *_ in node["inputs"] if output
    }  # of several outputs
    (head, *_), *_ = graph["heads"]
    inside = inside_runs(graph, shapes)
    passages = []
    for place in range(head):
        num_open += change[place]
        if num_open == 1 and place in of_data & spans.keys() - others - inside - {data}:
            passages.append(place)
    return passages


def _reached(graph: Graph, data: int) -> set[int]:
    """Return the positions of the nodes that are computed from the one at `data`, with it."""
    found = {data}
    for place, node in enumerate(graph["nodes"]):
        if any(source in found for source, *_ in node["inputs"]):
            found.add(place)
    return found


def _repeated(graph: Graph, data: int) -> set[int]:
    """Return the positions of what each segment computes by itself: it has neither weights nor gradients."""
    found: set[int] = set()
    for place, node in enumerate(graph["nodes"]):
        sources = {source for source, *_ in node["inputs"]}
        if (node["op"] in WITHOUT_GRADIENT and sources <= found | {data}) or (sources and sources <= found):
            found.add(place)
    return found


def _spans(graph: Graph, of_data: set[int], repeated: set[int]) -> dict[int, tuple[int, int]]:
    """Return from where to where each value is needed: one computed from data from itself on, a weight's from its first
    use on; up to the last use. Uses are those by nodes computed from data, also through others. What is `repeated` has
    none, and uses nothing.
    """
    uses = {source: (len(graph["nodes"]),) * 2 for source, *_ in graph["heads"]}
    for place, node in reversed(list(enumerate(graph["nodes"]))):
        if place in repeated:
            continue
        if place in of_data:
            own = (place, place)
        elif place in uses:
            own = uses[place]
        else:
            continue
        for source in {source for source, *_ in node["inputs"]} - repeated:
            first, last = uses.get(source, own)
            uses[source] = (min(first, own[0]), max(last, own[1]))
    return {place: (place if place in of_data else first, last) for place, (first, last) in uses.items()}


def sizes(graph: Graph, shapes: Shapes, data: int, passages: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the bytes of what is computed up to each passage and after the last one, and of what passes there."""
    narrow = in_bfloat16(graph)
    of_data = _reached(graph, data)
    bytes_of = [
        num_elements(shape_of(graph, shapes, place, 0))
        * (BFLOAT16_BYTES if place in narrow else FLOAT32_BYTES)
        * (place in of_data)
        for place in range(len(graph["nodes"]))
    ]
    ends = [*passages, len(bytes_of) - 1]
    computed = [sum(bytes_of[start + 1 : end + 1]) for start, end in zip([data, *passages], ends)]
    return computed, [bytes_of[end] for end in ends]


def cuts(computed: Sequence[int], handed_on: Sequence[int]) -> list[int]:
    """Return the cuts with the lowest peak: the inputs of all segments plus all that the largest one computes.

    `computed` has the size of all arrays that each part computes, `handed_on` of the last one. A cut at n comes before
    part n. For every size that a segment may have, segments are filled up to it.
    """
    largest = {sum(computed[start:end]) for start, end in itertools.combinations(range(len(computed) + 1), 2)}
    found = (_filled(computed, size) for size in sorted(largest))
    return min(found, key=lambda ends: peak(computed, handed_on, ends))


def _filled(computed: Sequence[int], size: int) -> list[int]:
    ends, inside = [], 0
    for place, amount in enumerate(computed):
        if inside and inside + amount > size:
            ends.append(place)
            inside = 0
        inside += amount
    return ends


def peak(computed: Sequence[int], handed_on: Sequence[int], ends: Sequence[int]) -> int:
    """Return the memory that segments with these cuts need."""
    inside = [sum(computed[start:end]) for start, end in zip([0, *ends], [*ends, len(computed)])]
    return sum(handed_on[end - 1] for end in ends) + max(inside)


def between(graph: Graph, start: int, head: Sequence[int]) -> Graph:
    """Return the graph of the value `head` from that of the node at `start`, which becomes a variable."""
    needed, waiting = {start}, [head[0]]
    while waiting:
        place = waiting.pop()
        if place not in needed:
            needed.add(place)
            waiting += [source for source, *_ in graph["nodes"][place]["inputs"]]
    positions = {place: position for position, place in enumerate(sorted(needed))}
    nodes = []
    for place in positions:
        node = graph["nodes"][place]
        inputs = [[positions[source], *rest] for source, *rest in node["inputs"] if place != start]
        variable = {"op": "null", "name": HANDED_ON, "inputs": []}
        nodes.append(variable if place == start else {**node, "inputs": inputs})
    return {
        "nodes": nodes,
        "arg_nodes": [place for place, node in enumerate(nodes) if node["op"] == "null"],
        "heads": [[positions[head[0]], *head[1:]]],
        "attrs": graph["attrs"],
    }
