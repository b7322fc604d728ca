"""Convolutions of nets that answer, with channels last and fewer multiplications, as operators of ours.

Kernels of 3 x 3 that move by 1 are computed by Winograd's algorithm, which takes 4 multiplications, or 2.25, in the
place of 9: what a CPU's fastest kernels cannot win otherwise. All convolutions around them, with the norms, sums and
ReLUs behind them, are ours too, so that arrays change their order only where such layers begin and end. Weights are
folded with the norms and transformed once.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from mxtrain import native
from mxtrain.models.rewrites import norm_relus
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
from mxtrain.models.rewrites.own import channel_runs, folded_weights, orders
from mxtrain.models.rewrites.own.answering_graphs import Net, net_of, without_unused
from mxtrain.models.rewrites.own.channel_runs import IDENTITY, RELU
from mxtrain.models.rewrites.own.orders import Entry, Lasts
from mxtrain.runtime.own_operators import CONVOLUTION, CONVOLUTION_SUM

KERNELS, STRIDES = (1, 3, 5), (1, 2)
WINOGRAD = ("3", "1")  # the kernel and the stride that it is for
PANEL = 16  # channels come in whole ones
LARGE, SMALL = 4, 2  # tiles of outputs
LARGE_TILES_UP_TO = 128 * 256  # weights: four times as many transformed ones are slow to read
# The inputs times outputs of a convolution of 3 x 3 that cost as much as what one channel takes to change its order.
PAYS_A_CHANNEL = 24
# Of these a channel that is pooled counts for: oneDNN pools arrays in plain order in ten times the time of its own.
A_POOLED_CHANNEL = 10


class _Layer(NamedTuple):
    """A convolution with what is behind it, up to the node `end`."""

    convolution: int
    norm: int | None
    total: int | None  # a sum behind that
    activation: str
    end: int
    taken: list[Entry]  # data, and what else the sum adds


def with_last_channels(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph, which nothing goes back through, with operators of ours where that pays."""
    net = net_of(graph, shapes)
    layers = [layer for stretch in _stretches(net) if _pays(net, stretch) for layer in stretch]
    if not layers:
        return graph
    nodes = list(graph["nodes"])
    replacements: dict[int, Replacement | None] = {}
    lasts: Lasts = {}
    for layer in layers:
        nodes[layer.end] = {
            **nodes[layer.end],
            "inputs": [*map(list, layer.taken), *folded_weights.sources(net, layer.convolution, layer.norm)],
        }
        is_taken = _is_taken_by_others(net, layer, layers)
        replacements[layer.end] = functools.partial(
            _operator, net=net, layer=layer, lasts=lasts, is_taken=is_taken
        )
    return without_unused(with_replaced({**graph, "nodes": nodes}, replacements))


def _stretches(net: Net) -> list[list[_Layer]]:
    """Return the layers that there are operators for, those together that take what one of them gives, or the same."""
    stretches: list[tuple[set[Entry], list[_Layer]]] = []
    for layer in _layers(net) if native.OPERATORS is not None else ():
        entries = {*layer.taken, (layer.end, 0)}
        near = [each for each in stretches if each[0] & entries]
        stretches = [each for each in stretches if each not in near]
        stretches.append(
            (entries.union(*(each for each, _ in near)), [*(one for _, each in near for one in each), layer])
        )
    return [_without_wide_beginnings(net, layers) for _, layers in stretches]


def _without_wide_beginnings(net: Net, layers: Sequence[_Layer]) -> list[_Layer]:
    """Return the layers without those that save nothing and take more channels from outside than they give."""
    ends = {(layer.end, 0) for layer in layers}

    def is_wide(layer: _Layer) -> bool:
        takes, gives = _sizes(net, layer)
        return takes > gives and not _tile(net, layer) and not ends.intersection(layer.taken)

    return [layer for layer in layers if not is_wide(layer)]


def _layers(net: Net) -> Iterator[_Layer]:
    totals: set[int] = set()  # each of one layer
    places = [place for place in range(len(net.graph["nodes"])) if _is_ours(net, place)]
    for place in reversed(places):  # what a sum adds is there before its last operand
        end, taken, activation = place, [net.entry(place, 0)], IDENTITY
        norm = net.only_user(end)
        if norm is None or not (
            norm_relus.is_norm(net.graph, net.shapes, norm) and _has_parameters(net, norm)
        ):
            norm = None
        end = end if norm is None else norm
        total = net.only_user(end)
        if total is None or total in totals or net.node(total)["op"] != "elemwise_add":
            total = None
        else:
            totals.add(total)
            one, other = net.entry(total, 0), net.entry(total, 1)
            taken, end = [*taken, one if other[0] == end else other], total
        relu = net.only_user(end)
        if relu is not None and net.is_relu(relu):
            activation, end = RELU, relu
        yield _Layer(place, norm, total, activation, end, taken)


def _is_ours(net: Net, place: int) -> bool:
    """Return whether this is a convolution for which there is an operator."""
    if not net.is_convolution(place):
        return False
    attributes, data = net.attributes(place), net.shape(net.node(place)["inputs"][0])
    kernel = numbers(attributes, "kernel")
    return (
        len(data) == OF_PICTURES
        and kernel in [(each, each) for each in KERNELS]
        and (numbers(attributes, "stride") or (1, 1)) in [(each, each) for each in STRIDES]
        and (numbers(attributes, "pad") or (0, 0)) == (kernel[0] // 2,) * 2
        and (numbers(attributes, "dilate") or (1, 1)) == (1, 1)
        and _has_parameters(net, place)
        and not any(channels % PANEL for channels in net.shape(net.node(place)["inputs"][1])[:2])
    )


def _has_parameters(net: Net, place: int) -> bool:
    """Return whether a node's inputs but the first are variables, not computed from others."""
    return all(net.node(source)["op"] == "null" for source, *_ in net.node(place)["inputs"][1:])


def _pays(net: Net, stretch: Sequence[_Layer]) -> bool:
    """Return whether a stretch saves more multiplications than it costs to put arrays in order at its ends."""
    ends = {(layer.end, 0) for layer in stretch}
    outside = {entry for layer in stretch for entry in layer.taken} - ends
    changed = sum(net.shape([*entry])[1] for entry in outside)
    for layer in stretch:
        if _is_taken_by_others(net, layer, stretch):
            pooled = any(net.node(user)["op"] == "Pooling" for user in net.users.get(layer.end, ()))
            changed += _sizes(net, layer)[1] * (A_POOLED_CHANNEL if pooled else 1)
    saved = sum(math.prod(_sizes(net, each)) for each in stretch if _tile(net, each))
    return bool(saved) and saved >= PAYS_A_CHANNEL * changed


def _is_taken_by_others(net: Net, layer: _Layer, layers: Sequence[_Layer]) -> bool:
    """Return whether something but these layers takes what one of them gives."""
    takers = {place for each in layers for place in (each.convolution, each.total)}
    return net.is_taken_besides(takers, layer.end)


def _sizes(net: Net, layer: _Layer) -> tuple[int, int]:
    """Return the channels that a layer takes, and those it gives."""
    outputs, inputs, *_ = net.shape(net.node(layer.convolution)["inputs"][1])
    return inputs, outputs


def _tile(net: Net, layer: _Layer) -> int:
    """Return the side of the tiles of Winograd's algorithm; 0 where it is not for this convolution."""
    sizes = channel_runs.sizes_of_convolution(net.attributes(layer.convolution))
    if (sizes["kernel"], sizes["stride"]) != WINOGRAD:
        return 0
    return LARGE if math.prod(_sizes(net, layer)) <= LARGE_TILES_UP_TO else SMALL


def _operator(
    node: Mapping[str, Any],
    inputs: Inputs,
    add: AddNode,
    net: Net,
    layer: _Layer,
    lasts: Lasts,
    is_taken: bool,
) -> int:
    name, count, tile = node["name"], len(layer.taken), {"tile": str(_tile(net, layer))}
    data, *added = [orders.last(lasts, entry, new, name, add) for entry, new in zip(layer.taken, inputs)]
    weights = folded_weights.add_weights(net, layer.convolution, layer.norm, inputs[count:], tile, add)
    made = {
        "op": CONVOLUTION_SUM if added else CONVOLUTION,
        "name": f"{name}_last",
        "attrs": {**folded_weights.sizes(net, layer.convolution), **tile, "activation": layer.activation},
        "inputs": [data, weights, *added],
    }
    lasts[layer.end, 0] = place = add(made)
    return orders.first(place, name, add) if is_taken else place
