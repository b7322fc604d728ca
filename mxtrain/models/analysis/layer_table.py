"""The parts of a net: its operators with shapes, parameters, operations and memory, and the blocks around them.

Owns the numbers. They come from the graph: nothing is computed, and weights need no values. Words for them
are `export/drawing/net_words.py`'s, drawings `net_drawing.py`'s, beside it.
"""

from __future__ import annotations

import math
from typing import Any, Collection, Iterator, Mapping, NamedTuple, Sequence, Union

from mxtrain.models import segments
from mxtrain.models.analysis import flops
from mxtrain.models.analysis.block_calls import Call, call_of
from mxtrain.models.rewrites.graph_rewrites import Graph, Shape, Shapes, nodes_and_shapes, shape_of
from mxtrain.runtime.types import Symbol

FLOAT32_BYTES = 4


class Operator(NamedTuple):
    """An operator of a net, for the batch that the shapes were given for."""

    name: str
    operator_type: str  # MXNet's name of it, as Convolution
    attributes: Mapping[str, str]
    inputs: tuple[
        int, ...
    ]  # the positions of other operators; those that take the net's inputs alone have none
    takes_input: bool  # one of the net's own
    shape: tuple[int, ...]  # of the first output
    parameters: tuple[str, ...]  # those that no operator before it has: names in the graph
    num_parameters: int  # the numbers in them
    trained_shapes: tuple[tuple[int, ...], ...]  # of those that are learnt
    flops: int | None  # of the forward pass; None where it is not known
    backward_flops: int | None
    output_bytes: int  # 0 where the output is its input's memory in another shape


class Part(NamedTuple):
    """A call of a block: what it consists of, in order, are other parts and positions of operators."""

    path: str
    class_name: str  # of the block
    content: tuple[Element, ...]


Element = Union[Part, int]  # of a net: a part, or the position of an operator


class Net(NamedTuple):
    """A net as its operators, and as a tree of parts."""

    operators: list[Operator]
    root: Part
    inputs: dict[str, tuple[int, ...]]
    outputs: tuple[int, ...]  # the positions of the operators that give the net's answer


def of_symbol(
    symbol: Symbol, calls: Sequence[Call], inputs: Mapping[str, Shape], trained: Collection[str]
) -> Net:
    """Return the net that was traced into `symbol`, for `inputs` of these shapes; `trained` are names of parameters."""
    graph, shapes = nodes_and_shapes(symbol, inputs)
    counted = flops.of_graph(graph, shapes, trained)
    of_node = None if counted is None else {each.name: each for each in counted}
    operators: list[Operator] = []
    position: dict[int, int] = {}  # of each operator's node, in the list
    seen: set[int] = set()  # parameters' nodes
    for place, node in enumerate(graph["nodes"]):
        if node["op"] != "null":
            position[place] = len(operators)
            operators.append(_operator(graph, shapes, place, position, seen, inputs, trained, of_node))
    places = {position[place]: place for place in position}
    made_by = [call_of(graph["nodes"][places[number]]) for number in range(len(operators))]
    outputs = tuple(dict.fromkeys(position[head[0]] for head in graph["heads"] if head[0] in position))
    sizes = {name: tuple(shape) for name, shape in inputs.items()}
    return Net(operators, _tree(calls, made_by), sizes, outputs)


def _operator(
    graph: Graph,
    shapes: Shapes,
    place: int,
    position: Mapping[int, int],
    seen: set[int],
    inputs: Mapping[str, Shape],
    trained: Collection[str],
    counted: Mapping[str, flops.NodeFlops] | None,
) -> Operator:
    node = graph["nodes"][place]
    sources = list(dict.fromkeys(source for source, *_ in node["inputs"]))
    variables = [source for source in sources if source not in position]
    names = {source: graph["nodes"][source]["name"] for source in variables}
    new = [source for source in variables if names[source] not in inputs and source not in seen]
    seen.update(new)
    sizes = {names[source]: tuple(shape_of(graph, shapes, source, 0)) for source in new}
    unknown = [name for name, size in sizes.items() if not size or min(size) < 1]
    if unknown:
        raise ValueError(f"the shape of {unknown[0]} does not follow from those of the inputs")
    its = None if counted is None else counted.get(node["name"])
    is_view = node["op"] in segments.WITHOUT_MEMORY
    return Operator(
        name=node["name"],
        operator_type=node["op"],
        attributes={key: value for key, value in node.get("attrs", {}).items() if not key.startswith("__")},
        inputs=tuple(position[source] for source in sources if source in position),
        takes_input=any(name in inputs for name in names.values()),
        shape=tuple(shape_of(graph, shapes, place, 0)),
        parameters=tuple(sizes),
        num_parameters=sum(map(math.prod, sizes.values())),
        trained_shapes=tuple(size for name, size in sizes.items() if name in trained),
        flops=None if counted is None else its.forward if its else 0,
        backward_flops=None if counted is None else its.backward if its else 0,
        output_bytes=0 if is_view else FLOAT32_BYTES * sum(map(math.prod, _outputs(graph, shapes, place))),
    )


def _outputs(graph: Graph, shapes: Shapes, place: int) -> Iterator[Shape]:
    """Yield the shapes of all outputs of a node that others can see."""
    name = graph["nodes"][place]["name"]
    if f"{name}_output" in shapes:
        yield shapes[f"{name}_output"]
        return
    number = 0
    while f"{name}_output{number}" in shapes:
        yield shapes[f"{name}_output{number}"]
        number += 1


def _tree(calls: Sequence[Call], made_by: Sequence[int]) -> Part:
    """Return the calls as a tree whose leaves are operators, in the graph's order; without those that made none."""
    first: dict[int, int] = {}  # operator of each call, its own or one of a call within
    within: dict[
        int, list[tuple[int, Any]]
    ] = {}  # what each call consists of, and the first operator of that
    for operator, call in enumerate(made_by):
        within.setdefault(call, []).append((operator, operator))
        inner: int | None = call
        while inner is not None:
            first.setdefault(inner, operator)
            inner = calls[inner].parent
    for number in sorted(first, reverse=True):  # calls within others have higher numbers
        each = calls[number]
        content = tuple(what for _, what in sorted(within.get(number, []), key=lambda pair: pair[0]))
        part = Part(each.path, each.class_name, content)
        if each.parent is None:
            return part
        within.setdefault(each.parent, []).append((first[number], part))
    return Part("", calls[0].class_name if calls else "", tuple(range(len(made_by))))


def operators_of(what: Element) -> list[int]:
    """Return the positions of a part's operators, or the position itself."""
    if isinstance(what, int):
        return [what]
    return [number for each in what.content for number in operators_of(each)]


class LayerTotals(NamedTuple):
    """The sums over some operators."""

    num_parameters: int
    num_trained: int
    flops: int | None
    backward_flops: int | None
    output_bytes: int


def sums(net: Net, what: Element | None = None) -> LayerTotals:
    """Return the sums over a part, or over the whole net."""
    chosen = [net.operators[number] for number in operators_of(net.root if what is None else what)]
    is_known = all(each.flops is not None for each in chosen)
    return LayerTotals(
        sum(each.num_parameters for each in chosen),
        sum(math.prod(shape) for each in chosen for shape in each.trained_shapes),
        sum(each.flops or 0 for each in chosen) if is_known else None,
        sum(each.backward_flops or 0 for each in chosen) if is_known else None,
        sum(each.output_bytes for each in chosen),
    )


def inference_bytes(net: Net) -> int:
    """Return the most memory that outputs take at a time if each is freed after its last use, without weights.

    MXNet's static graphs reuse memory about so well; oneDNN's own scratch memory comes on top.
    """
    owner = list(range(len(net.operators)))  # whose memory an operator's output lies in
    for number, each in enumerate(net.operators):
        if not each.output_bytes and each.inputs:
            owner[number] = owner[each.inputs[0]]
    last = {owner[number]: len(net.operators) for number in net.outputs}
    for number, each in enumerate(net.operators):
        for source in (number, *each.inputs):
            last[owner[source]] = max(last.get(owner[source], 0), number)
    live = highest = FLOAT32_BYTES * sum(map(math.prod, net.inputs.values()))
    ending: dict[int, list[int]] = {}
    for number, end in last.items():
        ending.setdefault(end, []).append(number)
    for number, each in enumerate(net.operators):
        live += each.output_bytes
        highest = max(highest, live)
        live -= sum(net.operators[done].output_bytes for done in ending.get(number, []))
    return highest
