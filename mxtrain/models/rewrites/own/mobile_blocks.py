"""Blocks of mobile nets that answer, one operator of ours each, with channels last from the first layer to the means.

A block is a convolution of 1 x 1 to more channels, a depthwise one, a gate of squeeze and excitation, and a convolution
of 1 x 1, with norms and activations, and the sum with what it takes; the first one and the gate may be absent. The wide
channels between its layers are never in memory. Weights are folded with the norms once.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Collection, Iterator, Mapping, NamedTuple, Sequence

from mxtrain import native
from mxtrain.models.rewrites import hard_sigmoids, norm_relus
from mxtrain.models.rewrites.graph_rewrites import (
    AddNode,
    Graph,
    Inputs,
    Replacement,
    Shapes,
    numbers,
    with_replaced,
)
from mxtrain.models.rewrites.norm_relus import OF_PICTURES
from mxtrain.models.rewrites.own import channel_runs, folded_weights, gates, orders
from mxtrain.models.rewrites.own.answering_graphs import Net, net_of, without_unused
from mxtrain.models.rewrites.own.channel_runs import HARD_SWISH, IDENTITY, RELU, RELU6
from mxtrain.models.rewrites.own.gates import Gate
from mxtrain.models.rewrites.own.orders import Entry, Lasts
from mxtrain.runtime.own_operators import (
    BLOCK,
    CHANNEL_MEANS,
    CONVOLUTION,
    FIRST_CONVOLUTION,
)

DEPTHWISE_KERNELS = (3, 5)
OF_WEIGHTS = 5  # what weights are made of: the convolution's, gamma, beta and the running statistics
MOST_COLOURS = 4  # of what a first convolution takes
INVERTED = (BLOCK[True, False], BLOCK[True, True])  # with wide channels, which are in memory otherwise
BLOCKS_PER_CHANGE = 3  # such ones of the order of arrays, that pay for it


class _Layer(NamedTuple):
    """A convolution with the norm and the activation behind it, up to the node `end`."""

    convolution: int
    norm: int
    activation: str
    end: int


class _Unit(NamedTuple):
    """Layers that become one operator, with weights of their own, up to the node `end`."""

    operator: str
    layers: list[_Layer]
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
    pointwise = {layer.end: layer for layer in _layers(net, _is_pointwise)}
    blocks = list(_blocks(net, pointwise))
    firsts = [first for first in _firsts(net) if any(block.data[0] == first.end for block in blocks)]
    return [*firsts, *blocks, *_lasts(net, pointwise, {block.end for block in blocks})]


def _lasts(net: Net, pointwise: Mapping[int, _Layer], ends: Collection[int]) -> Iterator[_Unit]:
    """Yield the means of what blocks give that end there, or layers of 1 x 1 behind them, and these layers."""
    for place in range(len(net.graph["nodes"])):
        if not gates.is_mean(net, place):
            continue
        source = net.entry(place, 0)
        last = None if source[0] in ends else pointwise.get(source[0])
        if last is not None and net.only_user(last.end) == place:
            before = net.entry(last.convolution, 0)
            attributes = {
                **folded_weights.sizes(net, last.convolution),
                "tile": "0",
                "activation": last.activation,
            }
            if before[0] in ends:
                yield _Unit(CONVOLUTION, [last], before, last.end, [last.convolution], attributes)
                yield _Unit(CHANNEL_MEANS, [], source, place, [place], {}, gives_last=False)
        elif source[0] in ends:
            yield _Unit(CHANNEL_MEANS, [], source, place, [place], {}, gives_last=False)


def _pays(net: Net, units: Sequence[_Unit]) -> bool:
    """Return whether blocks with wide channels are enough, for the others and for arrays that change their order."""
    ends = {(unit.end, 0) for unit in units}
    changes = {unit.data for unit in units if unit.operator != FIRST_CONVOLUTION} - ends
    changes.update(
        (unit.end, 0) for unit in units if unit.gives_last and _is_taken_by_others(net, unit, units)
    )
    inverted = sum(unit.operator in INVERTED for unit in units)
    others = sum(unit.operator in BLOCK.values() for unit in units) - inverted
    return inverted > max(others, BLOCKS_PER_CHANGE * len(changes))


def _layers(net: Net, is_ours: Callable[[Net, int], bool]) -> Iterator[_Layer]:
    """Yield the convolutions of a kind with the norms behind them."""
    for place in range(len(net.graph["nodes"])):
        norm = net.only_user(place) if is_ours(net, place) else None
        if norm is not None and norm_relus.is_norm(net.graph, net.shapes, norm):
            of_norm = net.node(norm)["inputs"][1:]
            if all(net.node(source)["op"] == "null" for source, *_ in of_norm):
                yield _Layer(place, norm, *_activation_behind(net, norm))


def _has_weights(net: Net, place: int) -> bool:
    """Return whether a convolution has weights that are a variable, and no bias."""
    is_variable = net.node(net.node(place)["inputs"][1][0])["op"] == "null"
    return is_variable and net.attributes(place).get("no_bias", "False") == "True"


def _is_pointwise(net: Net, place: int) -> bool:
    """Return whether this is a convolution of 1 x 1 with each place of a picture."""
    return (
        net.is_product(place)
        and len(net.shape(net.node(place)["inputs"][0])) == OF_PICTURES
        and (numbers(net.attributes(place), "stride") or (1, 1)) == (1, 1)
        and _has_weights(net, place)
    )


def _is_depthwise(net: Net, place: int) -> bool:
    return (
        channel_runs.is_depthwise(net.graph, net.shapes, place)
        and numbers(net.attributes(place), "kernel")[0] in DEPTHWISE_KERNELS
        and _has_weights(net, place)
    )


def _is_first(net: Net, place: int) -> bool:
    """Return whether this is a convolution of the few colours of pictures."""
    if not net.is_convolution(place):
        return False
    attributes, data = net.attributes(place), net.shape(net.node(place)["inputs"][0])
    kernel, stride, pad = (numbers(attributes, name) for name in ("kernel", "stride", "pad"))
    return (
        len(data) == OF_PICTURES
        and 0 < data[1] <= MOST_COLOURS
        and len(set(kernel)) == len(set(stride or (1,))) == len(set(pad or (0,))) == 1
        and (pad or (0,))[0] < kernel[0]
        and (numbers(attributes, "dilate") or (1, 1)) == (1, 1)
        and _has_weights(net, place)
    )


def _activation_behind(net: Net, norm: int) -> tuple[str, int]:
    """Return the activation that takes a norm's output, and the node that ends with it."""
    users = net.users.get(norm, [])
    swish = hard_sigmoids.hard_swish(net.graph["nodes"], users, net.only_user)
    if swish is not None and norm not in net.outputs:
        return HARD_SWISH, swish
    user = net.only_user(norm)
    if user is not None and net.is_relu(user):
        return RELU, user
    if user is not None and net.node(user)["op"] == "clip":
        limits = (float(net.attributes(user)["a_min"]), float(net.attributes(user)["a_max"]))
        return (RELU6, user) if limits == (0, 6) else (IDENTITY, norm)
    return IDENTITY, norm


def _blocks(net: Net, pointwise: Mapping[int, _Layer]) -> Iterator[_Unit]:
    """Yield the depthwise convolutions with the layers of 1 x 1 around them, each of which is part of one block."""
    depthwise = {layer.end: layer for layer in _layers(net, _is_depthwise)}
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


def _gate_before(net: Net, projection: _Layer, by_end: Mapping[int, Gate]) -> Gate | None:
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


def _block(net: Net, layers: list[_Layer], data: Entry, gate: Gate | None) -> _Unit:
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
    for layer in _layers(net, _is_first):
        data = net.entry(layer.convolution, 0)
        attributes = {**folded_weights.sizes(net, layer.convolution), "activation": layer.activation}
        yield _Unit(FIRST_CONVOLUTION, [layer], data, layer.end, [], attributes)


def _outputs(net: Net, layer: _Layer) -> str:
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
    data, is_first = inputs[0], unit.operator == FIRST_CONVOLUTION
    if not is_first:
        data = orders.last(lasts, unit.data, data, name, add)
    attributes, entries = {"tile": "0", "is_plain": str(int(is_first))}, [data]
    for layer in unit.layers:
        of_weights = [next(rest) for _ in range(OF_WEIGHTS)]
        entries.append(
            folded_weights.add_weights(net, layer.convolution, layer.norm, of_weights, attributes, add)
        )
    made = {"op": unit.operator, "attrs": unit.attributes, "inputs": [*entries, *rest]}
    if not unit.gives_last:
        return add({**made, "name": name})
    lasts[unit.end, 0] = place = add({**made, "name": f"{name}_last"})
    return orders.first(place, name, add) if is_taken else place
