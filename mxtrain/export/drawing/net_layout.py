"""The places of the boxes of a net's drawing: blocks within blocks, each a graph in layers from top to bottom.

Owns places, in pixels. Nodes that depend on each other lie below each other, an edge over several layers goes through
a point in each of them, and the order within a layer is that of the means of neighbours. What boxes look like is
`net_drawing.py`'s.
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence, Tuple, Union

from mxtrain.models.analysis import layer_table
from mxtrain.models.analysis.layer_table import Element, Net, Part

GAP_X, GAP_Y, LANE = 22.0, 26.0, 16.0  # between boxes, and the width of an edge that passes by
PAD, CAPTION = 14.0, 26.0  # within an open block, and the height of its title
SWEEPS = 8
# A box by its number, or the point of an edge from one box to another in a layer.
Node = Union[int, Tuple[Tuple[int, int], int]]
PASSING = 0.001  # the weight of where an edge that passes by wants to be, beside that of a box


class Box(NamedTuple):
    """A drawn operator or block. An open block has boxes in it, placed within it, and the edges between them."""

    what: Element
    path: str  # of the block around it
    width: float
    height: float
    enter: float  # where edges reach it, from its left side, and where they leave it
    leave: float
    inner: tuple[tuple[float, float, Box], ...] = ()
    edges: tuple[tuple[tuple[float, float], ...], ...] = ()


def layout(
    net: Net, what: Element, path: str, depth: int, closed: Callable[[Element, str], tuple[float, float]]
) -> Box:
    """Return the box of a part or operator, in which blocks are open down to `depth`.

    `closed` tells the width and height of one that is not open.
    """
    if isinstance(what, int) or depth <= 0 or len(layer_table.operators_of(what)) == 1:
        width, height = closed(what, path)
        return Box(what, path, width, height, width / 2, width / 2)
    boxes = [layout(net, each, what.path, depth - 1, closed) for each in what.content]
    layers, links = _in_layers(len(boxes), connections(net, what))
    centres = _centres(layers, links, boxes)
    tops, height = _tops(layers, boxes)
    left = min(centres[each] - _left(each, boxes) for each in centres)
    right = max(centres[each] + _right(each, boxes) for each in centres)
    width = max(right - left + 2 * PAD, closed(what, path)[0])
    shift = (width - (right - left)) / 2 - left
    placed = [
        (centres[number] + shift - box.enter, tops[number] + CAPTION, box) for number, box in enumerate(boxes)
    ]
    ends = _edges(layers, links, centres, tops, boxes, height)
    edges = tuple(tuple((x + shift, y + CAPTION) for x, y in points) for points in ends)
    ports = centres[-1] + shift, centres[len(boxes)] + shift
    return Box(what, path, width, height + CAPTION, *ports, tuple(placed), edges)


def connections(net: Net, part: Part) -> list[tuple[int, int]]:
    """Return which of the part's contents hand on to which: -1 is what comes into it, their number what leaves it."""
    owner = {
        number: place for place, each in enumerate(part.content) for number in layer_table.operators_of(each)
    }
    pairs: dict[tuple[int, int], None] = {}
    end = len(part.content)
    for number, operator in enumerate(net.operators):
        for source in operator.inputs:
            pair = owner.get(source, -1), owner.get(number, end)
            if pair[0] != pair[1] and pair != (-1, end):
                pairs[pair] = None
        if operator.takes_input and number in owner:
            pairs[-1, owner[number]] = None
    for number in net.outputs:
        if number in owner:
            pairs[owner[number], end] = None
    return list(pairs)


# ------------------------------------------------------------------------------------------------------------
# Layers. A node is the place of a box, or (edge, layer) for an edge that passes a layer


def _in_layers(
    count: int, pairs: Sequence[tuple[int, int]]
) -> tuple[list[list[Node]], list[tuple[Node, Node]]]:
    """Return the nodes of each layer, the ports -1 and `count` in the first and last, and links between neighbours."""
    before: dict[int, list[int]] = {}
    for source, target in pairs:
        before.setdefault(target, []).append(source)
    depth = {-1: 0}
    for place in _sources_first(count, before):
        depth[place] = 1 + max((depth.get(each, 0) for each in before.get(place, ())), default=0)
    last = 1 + max(depth.values())
    depth[count] = last
    layers: list[list[Node]] = [[] for _ in range(last + 1)]
    for place in (-1, *range(count), count):
        layers[depth[place]].append(place)
    links: list[tuple[Node, Node]] = []
    for source, target in pairs:
        between = range(depth[source] + 1, depth[target])
        passed: list[Node] = [((source, target), layer) for layer in between]
        for layer, node in zip(between, passed):
            layers[layer].append(node)
        if depth[target] > depth[source]:
            links += zip([source, *passed], [*passed, target])
    return layers, links


def _sources_first(count: int, before: dict[int, list[int]]) -> list[int]:
    """Return the boxes so that each comes after those it takes from; where that goes in a circle, the first one."""
    left = list(range(count))
    found: list[int] = []
    while left:
        waiting = {*left}
        ready = (place for place in left if waiting.isdisjoint(before.get(place, ())))
        found.append(next(ready, left[0]))
        left.remove(found[-1])
    return found


def _centres(
    layers: Sequence[list[Node]], links: Sequence[tuple[Node, Node]], boxes: Sequence[Box]
) -> dict[Node, float]:
    """Return where each node lies from left to right, that is where its edges reach it; orders the layers.

    Boxes that hand on to each other are wanted below each other; edges that pass by make room.
    """
    above: dict[Node, list[Node]] = {}
    below: dict[Node, list[Node]] = {}
    for source, target in links:
        above.setdefault(target, []).append(source)
        below.setdefault(source, []).append(target)
    centres: dict[Node, float] = {}
    for layer in layers:
        _pack(layer, [0.0] * len(layer), centres, boxes)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else layers[::-1]:
            near = above if down else below
            wanted = [_mean([centres[each] for each in _next_to(node, near)]) for node in layer]
            if sweep < SWEEPS - 2:
                pairs = sorted(zip(wanted, range(len(layer))), key=lambda pair: pair[0])
                layer[:] = [layer[number] for _, number in pairs]
                wanted = [want for want, _ in pairs]
            _pack(layer, wanted, centres, boxes)
    return centres


def _next_to(node: Node, near: dict[Node, list[Node]]) -> list[Node]:
    """Return the boxes among a node's neighbours, else all of them, else itself."""
    found = near.get(node, [node])
    return [each for each in found if not isinstance(each, tuple)] or found


def _pack(
    layer: Sequence[Node], wanted: Sequence[float], centres: dict[Node, float], boxes: Sequence[Box]
) -> None:
    """Place a layer's nodes as near as may be to where they are wanted, in their order and apart from each other."""
    groups: list[_Group] = []
    for node, want in zip(layer, wanted):
        groups.append(_Group([(node, 0.0)], [(want, PASSING if isinstance(node, tuple) else 1.0)]))
        while len(groups) > 1:
            left, right = groups[-2:]
            (last, offset), (first, _) = left.nodes[-1], right.nodes[0]
            least = offset + _right(last, boxes) + _left(first, boxes) + GAP_X
            if right.place() - left.place() >= least:
                break
            moved = [(each, least + further) for each, further in right.nodes]
            wishes = [(want - least, weight) for want, weight in right.wishes]
            groups[-2:] = [_Group(left.nodes + moved, left.wishes + wishes)]
    for group in groups:
        centres.update((node, group.place() + offset) for node, offset in group.nodes)


class _Group(NamedTuple):
    """Nodes that touch each other, with their distances from the first one, and where they all want that to be."""

    nodes: list[tuple[Node, float]]
    wishes: list[tuple[float, float]]  # each with its weight

    def place(self) -> float:
        return sum(want * weight for want, weight in self.wishes) / sum(weight for _, weight in self.wishes)


def _tops(layers: Sequence[list[Node]], boxes: Sequence[Box]) -> tuple[dict[Node, float], float]:
    """Return the upper end of each node, boxes in the middle of their layer, and the height of all layers."""
    tops: dict[Node, float] = {}
    y = 0.0
    for number, layer in enumerate(layers):
        height = max((_height(node, boxes) for node in layer), default=0.0)
        for node in layer:
            tops[node] = y + (height - _height(node, boxes)) / 2
        y += height + (GAP_Y if number < len(layers) - 1 else 0.0)
    return tops, y


def _edges(
    layers: Sequence[list[Node]],
    links: Sequence[tuple[Node, Node]],
    centres: dict[Node, float],
    tops: dict[Node, float],
    boxes: Sequence[Box],
    height: float,
) -> list[tuple[tuple[float, float], ...]]:
    """Return the points of each edge, from the lower end of a box to the upper end of another one."""
    after = {source: target for source, target in links if isinstance(source, tuple)}
    spans = []  # of each layer: an edge that passes by goes straight down beside the boxes
    for layer in layers:
        drawn = [node for node in layer if not isinstance(node, tuple)]
        tallest = max((_height(node, boxes) for node in drawn), default=0.0)
        middle = tops[layer[0]] + _height(layer[0], boxes) / 2 if layer else 0.0
        spans.append((middle - tallest / 2, middle + tallest / 2))
    edges = []
    for source, target in links:
        if isinstance(source, tuple):
            continue
        out = boxes[source].leave - boxes[source].enter if 0 <= source < len(boxes) else 0.0
        points = [(centres[source] + out, tops[source] + _height(source, boxes))]
        while isinstance(target, tuple):
            points += [(centres[target], y) for y in spans[target[1]]]
            target = after[target]
        points.append((centres[target], tops[target]))
        edges.append(tuple(points))
    return edges


def _left(node: Node, boxes: Sequence[Box]) -> float:
    """Return how far a node reaches to the left of where edges reach it."""
    return boxes[node].enter if isinstance(node, int) and 0 <= node < len(boxes) else LANE / 2


def _right(node: Node, boxes: Sequence[Box]) -> float:
    if isinstance(node, int) and 0 <= node < len(boxes):
        return boxes[node].width - boxes[node].enter
    return LANE / 2


def _height(node: Node, boxes: Sequence[Box]) -> float:
    return boxes[node].height if isinstance(node, int) and 0 <= node < len(boxes) else 0.0


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)
