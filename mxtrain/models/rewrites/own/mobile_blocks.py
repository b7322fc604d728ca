"""Blocks of mobile nets that answer, one operator of ours each, with channels last from the first layer to the means.

A block is a convolution of 1 x 1 to more channels, a depthwise one, a gate of squeeze and excitation, and a convolution
of 1 x 1, with norms and activations, and the sum with what it takes; the first one and the gate may be absent. The wide
channels between its layers are never in memory. Weights are folded with the norms once.
"""

from __future__ import annotations

import functools
from typing import Any, Collection, Iterator, Mapping, NamedTuple, Sequence

from mxtrain import native
from mxtrain.models.rewrites.graph_rewrites import (
    AddNode,
    Graph,
    Inputs,
    Replacement,
    Shapes,
    with_replaced,
)
from mxtrain.models.rewrites.own import channel_runs, folded_weights, gates, mobile_layers, orders
from mxtrain.models.rewrites.own.answering_graphs import Net, net_of, without_unused
from mxtrain.models.rewrites.own.channel_runs import IDENTITY
from mxtrain.models.rewrites.own.gates import Gate
from mxtrain.models.rewrites.own.mobile_layers import Layer
from mxtrain.models.rewrites.own.orders import Entry, Lasts
from mxtrain.runtime.own_operators import (
    BLOCK,
    CHANNEL_MEANS,
    CONVOLUTION,
    FIRST_BLOCK,
    FIRST_CONVOLUTION,
)

INVERTED = (BLOCK[True, False], BLOCK[True, True])  # with wide channels, which are in memory otherwise
OF_PICTURES = (FIRST_CONVOLUTION, FIRST_BLOCK)  # take these in MXNet's order
BLOCKS_PER_CHANGE = 3  # such ones of the order of arrays, that pay for it


class _Unit(NamedTuple):
    """Layers that become one operator, with weights of their own, up to the node `end`."""

    operator: str
    layers: list[Layer]
    data: Entry
    end: int
    takers: list[int]  # the nodes of it that take data
    attributes: dict[str, str]
    gate: Gate | None = None
    gives_last: bool = True  # channels, as all but means


def with_mobile_blocks(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph, which nothing goes back through, with operators of ours for a mobile net."""
    net = net_of(graph, shapes)
    units = _units(net) if native.OPERATORS is not None else []
    if not _pays(net, units):
        return graph
    nodes = list(graph["nodes"])
    replacements: dict[int, Replacement | None] = {}
    lasts: Lasts = {}
    for unit in units:
        nodes[unit.end] = {**nodes[unit.end], "inputs": _inputs(net, unit)}
        is_taken = _is_taken_by_others(net, unit, units)
        replacements[unit.end] = functools.partial(
            _operator, net=net, unit=unit, lasts=lasts, is_taken=is_taken
        )
    return without_unused(with_replaced({**graph, "nodes": nodes}, replacements))


def _units(net: Net) -> list[_Unit]:
    """Return the blocks, the first convolution before them, the last one behind them and the means at the end."""
    pointwise = {layer.end: layer for layer in mobile_layers.layers(net, mobile_layers.is_pointwise)}
    blocks = list(_blocks(net, pointwise))
    ends = {block.end for block in blocks}
    firsts = {
        first.end: first for first in _firsts(net) if any(block.data[0] == first.end for block in blocks)
    }
    for at, block in enumerate(blocks):
        if block.data[0] in firsts and _is_joined(net, block):
            blocks[at] = _first_block(net, firsts.pop(block.data[0]), block)
    return [*firsts.values(), *blocks, *_lasts(net, pointwise, ends)]


def _lasts(net: Net, pointwise: Mapping[int, Layer], ends: Collection[int]) -> Iterator[_Unit]:
    """Yield the means of what blocks give, or layers of 1 x 1 behind them, with the layers around them."""
    for place in range(len(net.graph["nodes"])):
        if not gates.is_mean(net, place):
            continue
        source = net.entry(place, 0)
        last = None if source[0] in ends else pointwise.get(source[0])
        if last is not None and net.only_user(last.end) == place:
            before = net.entry(last.convolution, 0)
            if before[0] in ends:
                yield _convolution(net, last, before)
                yield from _means(net, source, place)
        elif source[0] in ends:
            yield from _means(net, source, place)


def _convolution(net: Net, layer: Layer, data: Entry) -> _Unit:
    sizes = folded_weights.sizes(net, layer.convolution)
    attributes = {**sizes, "tile": "0", "activation": layer.activation}
    return _Unit(CONVOLUTION, [layer], data, layer.end, [layer.convolution], attributes)


def _means(net: Net, source: Entry, place: int) -> Iterator[_Unit]:
    """Yield means and the layers of 1 x 1 that take them, flat where these end in what is flat."""
    head = list(mobile_layers.dense_layers(net, place))
    flat = net.only_user(head[-1].end) if head else None
    if flat is None or net.node(flat)["op"] != "Flatten":
        yield _Unit(CHANNEL_MEANS, [], source, place, [place], {}, gives_last=False)
        return
    yield _Unit(CHANNEL_MEANS, [], source, place, [place], {"is_flat": "1"})
    for layer, data in zip(head, [place, *(each.end for each in head)]):
        unit = _convolution(net, layer, (data, 0))
        yield unit if layer is not head[-1] else unit._replace(end=flat, gives_last=False)


def _pays(net: Net, units: Sequence[_Unit]) -> bool:
    """Return whether blocks with wide channels are enough, for the others and for arrays that change their order."""
    ends = {(unit.end, 0) for unit in units}
    changes = {unit.data for unit in units if unit.operator not in OF_PICTURES} - ends
    changes.update(
        (unit.end, 0) for unit in units if unit.gives_last and _is_taken_by_others(net, unit, units)
    )
    inverted = sum(unit.operator in INVERTED for unit in units)
    others = sum(unit.operator in (*BLOCK.values(), FIRST_BLOCK) for unit in units) - inverted
    return inverted > max(others, BLOCKS_PER_CHANGE * len(changes))


def _blocks(net: Net, pointwise: Mapping[int, Layer]) -> Iterator[_Unit]:
    """Yield the depthwise convolutions with the layers of 1 x 1 around them, each of which is part of one block."""
    depthwise = {layer.end: layer for layer in mobile_layers.layers(net, mobile_layers.is_depthwise)}
    by_end = {gate.end: gate for gate in gates.gates(net)}
    taken: set[int] = set()  # as the last layer of a block
    for projection in pointwise.values():
        source = net.node(projection.convolution)["inputs"][0][0]
        gate = _gate_before(net, projection, by_end)
        middle = depthwise.get(source if gate is None else gate.source[0])
        if middle is None or (gate is None and net.only_user(middle.end) != projection.convolution):
            continue
        layers, data = [middle, projection], net.entry(middle.convolution, 0)
        expansion = pointwise.get(data[0])
        if (
            expansion is not None
            and data[0] not in taken
            and net.only_user(expansion.end) == middle.convolution
        ):
            layers, data = [expansion, *layers], net.entry(expansion.convolution, 0)
        taken.add(projection.end)
        yield _block(net, layers, data, gate)


def _gate_before(net: Net, projection: Layer, by_end: Mapping[int, Gate]) -> Gate | None:
    """Return the gate of what a layer of 1 x 1 takes, where that is for nothing else."""
    product = net.node(projection.convolution)["inputs"][0][0]
    if net.only_user(product) != projection.convolution or net.node(product)["op"] != "broadcast_mul":
        return None
    (source, *_), (factor, *_) = net.node(product)["inputs"]
    gate = by_end.get(factor)
    if gate is None or gate.source[0] != source or net.only_user(factor) != product:
        return None
    is_alone = set(net.users[source]) <= {product, gate.means} and source not in net.outputs
    return gate if is_alone else None


def _block(net: Net, layers: list[Layer], data: Entry, gate: Gate | None) -> _Unit:
    *before, middle, projection = layers
    total, end, takers = net.only_user(projection.end), projection.end, [layers[0].convolution]
    is_residual = (
        total is not None
        and net.node(total)["op"] == "elemwise_add"
        and sorted((net.entry(total, 0), net.entry(total, 1))) == sorted([data, (projection.end, 0)])
        and projection.activation == IDENTITY
    )
    if total is not None and is_residual:
        end, takers = total, [*takers, total]
    attributes = {
        **channel_runs.sizes_of_convolution(net.attributes(middle.convolution)),
        "wide": _outputs(net, middle),
        "outputs": _outputs(net, projection),
        "expanded": before[0].activation if before else IDENTITY,
        "convolved": middle.activation,
        "activation": projection.activation,
        "is_residual": str(int(is_residual)),
        **(gates.attributes(net, gate) if gate else {}),
    }
    return _Unit(BLOCK[bool(before), gate is not None], layers, data, end, takers, attributes, gate)


def _firsts(net: Net) -> Iterator[_Unit]:
    for layer in mobile_layers.layers(net, mobile_layers.is_first):
        data = net.entry(layer.convolution, 0)
        attributes = {**folded_weights.sizes(net, layer.convolution), "activation": layer.activation}
        yield _Unit(FIRST_CONVOLUTION, [layer], data, layer.end, [], attributes)


def _is_joined(net: Net, block: _Unit) -> bool:
    """Return whether a block without an expansion is all that takes what is before it, and that once."""
    return block.operator == BLOCK[False, False] and [net.only_user(block.data[0])] == block.takers


def _first_block(net: Net, first: _Unit, block: _Unit) -> _Unit:
    """Return a first convolution and the block behind it as one."""
    sizes = {name: first.attributes[name] for name in ("kernel", "stride", "pad")}
    return block._replace(
        operator=FIRST_BLOCK,
        layers=[*first.layers, *block.layers],
        data=first.data,
        takers=[],
        attributes={
            **block.attributes,
            **{f"first_{name}": size for name, size in sizes.items()},
            "expanded": first.attributes["activation"],
        },
    )


def _outputs(net: Net, layer: Layer) -> str:
    return str(net.attributes(layer.convolution)["num_filter"])


def _is_taken_by_others(net: Net, unit: _Unit, units: Sequence[_Unit]) -> bool:
    """Return whether something but these units takes what one of them gives."""
    takers = {place for each in units for place in each.takers}
    return net.is_taken_besides(takers, unit.end)


def _inputs(net: Net, unit: _Unit) -> list[list[int]]:
    """Return data, what the weights of each layer are made of, and the weights and biases of a gate."""
    inputs = [[*unit.data, 0]]
    for layer in unit.layers:
        inputs += folded_weights.sources(net, layer.convolution, layer.norm)
    return inputs + (gates.weights(net, unit.gate) if unit.gate else [])


def _operator(
    node: Mapping[str, Any],
    inputs: Inputs,
    add: AddNode,
    net: Net,
    unit: _Unit,
    lasts: Lasts,
    is_taken: bool,
) -> int:
    name, rest = node["name"], iter(inputs[1:])
    data, is_first = inputs[0], unit.operator in OF_PICTURES
    if not is_first:
        data = orders.last(lasts, unit.data, data, name, add)
    entries = [data]
    for layer in unit.layers:
        attributes = {"tile": "0", "is_plain": str(int(is_first and layer is unit.layers[0]))}
        of = (layer.convolution, layer.norm)
        of_weights = [next(rest) for _ in folded_weights.sources(net, *of)]
        entries.append(folded_weights.add_weights(net, *of, of_weights, attributes, add))
    made = {"op": unit.operator, "attrs": unit.attributes, "inputs": [*entries, *rest]}
    if not unit.gives_last:
        return add({**made, "name": name})
    lasts[unit.end, 0] = place = add({**made, "name": f"{name}_last"})
    return orders.first(place, name, add) if is_taken else place
