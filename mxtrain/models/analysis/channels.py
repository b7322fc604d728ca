"""The channels of a net: which arrays have to have the same ones, read from its graph.

A convolution or dense layer makes channels; norms and activations pass them on, sums and products join those of
several layers into one group, concatenations line groups up, and the next layers take them. Owns finding the groups,
and why some have to stay as they are. Computes on plain nodes (`graph.py`).
"""

from __future__ import annotations

import dataclasses
from typing import Mapping, NamedTuple, Sequence, Tuple

from mxtrain.models.analysis.graph import NORMS, Node

Shape = Tuple[int, ...]

# Operators of one input that leave channels where they are.
PASSING = frozenset(
    (
        *(
            "relu",
            "Activation",
            "LeakyReLU",
            "sigmoid",
            "tanh",
            "hard_sigmoid",
            "softsign",
            "clip",
            "abs",
            "square",
        ),
        *("exp", "sqrt", "Dropout", "Pooling", "Pad", "UpSampling", "Flatten", "_copy", "BlockGrad", "Cast"),
        *("_contrib_AdaptiveAvgPooling2D", "_contrib_BilinearResize2D", "amp_cast", "identity"),
        *("_plus_scalar", "_minus_scalar", "_rminus_scalar", "_mul_scalar", "_div_scalar"),
        *("_maximum_scalar", "_minimum_scalar"),
    )
)
JOINING = frozenset(
    f"{way}_{what}" for way in ("elemwise", "broadcast") for what in ("add", "sub", "mul", "div")
) | {"_plus", "_minus", "_mul", "add_n", "ElementWiseSum", "broadcast_plus", "broadcast_minus"}
NORMS_OF_CHANNELS = frozenset(NORMS) - {"GroupNorm", "LayerNorm"}  # which each channel has by itself


ANSWER = "they are the net's answer"


class Part(NamedTuple):
    """All channels of a group, one after the other, each so many times in a row: more than once once flattened."""

    group: int
    times: int = 1


Line = Tuple[Part, ...]  # what lies along an axis


@dataclasses.dataclass
class Group:
    """Channels that stay or go together; `layers` are the names of the weights that make them."""

    size: int
    layers: list[str]
    reason: str = ""  # why they all have to stay


@dataclasses.dataclass
class Channels:
    """The groups of a net, and what of them lies along the axes of its parameters, by their long names."""

    groups: dict[int, Group]
    axes: dict[str, dict[int, Line]]
    outputs: dict[str, Line]  # of each convolution and dense layer, by the name of its weight
    depthwise: list[str]  # weights of convolutions that filter each channel by itself


class _Finder:
    """Walks through the nodes of a graph, from the input to the output."""

    def __init__(self, nodes: Sequence[Node], shapes: Mapping[str, Shape]):
        self.nodes, self.shapes = nodes, shapes
        self.groups: list[Group] = []
        self.joined: list[int] = []  # with which group each is one: itself, or an earlier one
        self.axes: dict[str, dict[int, Line]] = {}
        self.outputs: dict[str, Line] = {}
        self.depthwise: list[str] = []
        self.lines: list[Line] = []  # of each node's output; empty where there are none

    def root(self, group: int) -> int:
        while self.joined[group] != group:
            group = self.joined[group]
        return group

    def size(self, line: Line) -> int:
        return sum(self.groups[part.group].size * part.times for part in line)

    def keep(self, line: Line, reason: str) -> None:
        for part in line:
            group = self.groups[self.root(part.group)]
            group.reason = group.reason or reason

    def join(self, lines: Sequence[Line], reason: str) -> Line:
        """Make groups of lines one; where they do not lie alike, they have to stay."""
        first = lines[0]
        is_alike = all(self._segments(line) == self._segments(first) for line in lines)
        if not (is_alike and all(lines)):
            for line in lines:
                self.keep(line, reason)
            return max(lines, key=len)
        for line in lines[1:]:
            for part, other in zip(first, line):
                self._merge(self.root(part.group), self.root(other.group))
        return first

    def _segments(self, line: Line) -> list[tuple[int, int]]:
        return [(self.groups[part.group].size, part.times) for part in line]

    def _merge(self, one: int, other: int) -> None:
        first, last = min(one, other), max(one, other)
        if first != last:
            self.joined[last] = first
            self.groups[first].layers += self.groups[last].layers
            self.groups[first].reason = self.groups[first].reason or self.groups[last].reason

    def lay(self, parameter: str, axis: int, line: Line, reason: str) -> bool:
        """Note that a line lies along the axis of a parameter, flattened perhaps; else its channels have to stay."""
        size, shape = self.size(line), self.shapes.get(parameter)  # none of what is no parameter
        known = shape[axis] if shape else 1
        if not size or known % size or axis in self.axes.get(parameter, {}):
            self.keep(line, reason)
            self.keep(self.axes.get(parameter, {}).get(axis, ()), reason)  # a parameter of two layers
            return False
        times = known // size
        self.axes.setdefault(parameter, {})[axis] = tuple(Part(g, each * times) for g, each in line)
        return True

    def make(self, parameter: str) -> Line:
        """Return a new group of the channels that a layer makes."""
        self.groups.append(Group(self.shapes[parameter][0], [parameter]))
        self.joined.append(len(self.groups) - 1)
        return (Part(len(self.groups) - 1),)

    def line_of(self, node: Node) -> Line:
        """Return the channels of a node's output, along its second axis."""
        if node.operator == "null":
            return ()
        sources = [self.nodes[place].name for place, _ in node.inputs]
        lines = [self.lines[place] for place, _ in node.inputs]
        passed_to = f"they go on to {node.name}, of operator {node.operator}"
        if node.operator in ("Convolution", "FullyConnected"):
            return self._made(node, sources, lines[0], passed_to)
        if node.operator in NORMS_OF_CHANNELS and node.attributes.get("axis", "1") == "1":
            for parameter in sources[1:]:
                self.lay(parameter, 0, lines[0], passed_to)
            return lines[0]
        if node.operator == "LeakyReLU" and len(sources) > 1 and self.shapes.get(sources[1]) != (1,):
            self.lay(sources[1], 0, lines[0], passed_to)
            return lines[0]
        if node.operator in PASSING or (node.operator == "expand_dims" and int(node.attributes["axis"]) > 1):
            return lines[0]
        if node.operator in JOINING:
            return self.join(lines, passed_to)
        if node.operator == "Concat" and node.attributes.get("dim", "1") == "1" and all(lines):
            return tuple(part for line in lines for part in line)
        for line in lines:
            self.keep(line, passed_to)
        return ()

    def _made(self, node: Node, sources: Sequence[str], line: Line, passed_to: str) -> Line:
        """Return the channels that a convolution or dense layer makes of those that it takes."""
        weight, *biases = sources[1:]
        num_parts = int(node.attributes.get("num_group", 1))
        is_by_last_axis = node.attributes.get("flatten", "True") == "False"
        if weight in self.outputs or weight not in self.shapes:  # two layers share it, or it is computed
            self.keep(line + self.outputs.get(weight, ()), passed_to)
            return ()
        if num_parts > 1 and num_parts == self.size(line) == self.shapes[weight][0]:
            made = line
            self.depthwise.append(weight)
        else:
            made = self.make(weight)
            if num_parts > 1:
                self.keep(line + made, f"{node.name} computes them in {num_parts} parts")
            elif is_by_last_axis:
                self.keep(line + made, f"{node.name} takes them along the last axis")
            elif line:
                self.lay(weight, 1, line, passed_to)
        self.outputs[weight] = made
        for parameter in (weight, *biases):
            self.lay(parameter, 0, made, passed_to)
        return made

    def channels(self) -> Channels:
        for node in self.nodes:
            self.lines.append(self.line_of(node))
        self.keep(self.lines[-1], ANSWER)
        roots = {group: self.groups[group] for group in range(len(self.groups)) if self.root(group) == group}
        axes = {
            name: {axis: self._resolved(line) for axis, line in of_name.items()}
            for name, of_name in self.axes.items()
        }
        outputs = {name: self._resolved(line) for name, line in self.outputs.items()}
        return Channels(roots, axes, outputs, self.depthwise)

    def _resolved(self, line: Line) -> Line:
        return tuple(Part(self.root(group), times) for group, times in line)


def find(nodes: Sequence[Node], shapes: Mapping[str, Shape]) -> Channels:
    """Return the channels of a graph of one input and one output, whose variables have these shapes."""
    return _Finder(nodes, shapes).channels()
