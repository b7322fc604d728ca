"""Convolutions of mobile nets that answer, as operators of ours in plain order from the first of them to the last.

oneDNN's convolutions want arrays in blocks, what is between them plain ones, so each hard swish and each gate of
squeeze and excitation would put an array in order before it and behind it. Ours of 1 x 1 take the norm behind them into
their weights, once, and compute an activation, a sum and gates of their inputs in the same pass; a depthwise one behind
it is computed while what it takes is in the cache. Nets without hard swishes or gates are oneDNN's: it joins all else.
"""

from __future__ import annotations

import functools
from typing import Any, Iterable, Iterator, Mapping, NamedTuple

from mxtrain import native
from mxtrain.models.rewrites import hard_sigmoids, norm_relus
from mxtrain.models.rewrites.graph_rewrites import (
    AddNode,
    Graph,
    Inputs,
    Replacement,
    Shapes,
    numbers,
    plain_copy,
    with_replaced,
)
from mxtrain.models.rewrites.norm_relus import OF_PICTURES
from mxtrain.models.rewrites.own import channel_runs
from mxtrain.models.rewrites.own import gates as own_gates
from mxtrain.models.rewrites.own.answering_graphs import Net, net_of, without_unused
from mxtrain.models.rewrites.own.channel_runs import HARD_SWISH, IDENTITY, RELU, RELU6
from mxtrain.models.rewrites.own.gates import Gate
from mxtrain.runtime.own_operators import (
    DEPTHWISE_NORM,
    EXPANDED,
    FOLDED_NORM,
    GATED_POINTWISE,
    GATED_POINTWISE_SUM,
    POINTWISE,
    POINTWISE_SUM,
)

OF_WEIGHTS = 5  # what weights are made of: the convolution's, gamma, beta and the running statistics
MEANS = 1  # of the outputs of an expanded depthwise layer
OPERATORS = {  # by whether inputs have gates, and whether something is added
    (False, False): POINTWISE,
    (False, True): POINTWISE_SUM,
    (True, False): GATED_POINTWISE,
    (True, True): GATED_POINTWISE_SUM,
}


class _Layer(NamedTuple):
    """A convolution with the norm and the activation behind it, up to the node `end`."""

    convolution: int
    norm: int
    activation: str
    end: int
    is_depthwise: bool
    expansion: _Layer | None = None  # a layer of 1 x 1 before a depthwise one, which nothing else takes
    gates: tuple[int, int] | None = None  # the product before it, and its factor of each channel
    added: list[int] | None = None  # what else the sum takes that is its end


def with_plain_layers(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph, which nothing goes back through, with operators of ours for the layers of a mobile net."""
    net = net_of(graph, shapes)
    layers = list(_layers(net)) if native.OPERATORS is not None else []
    gates = {gate.end: gate for gate in own_gates.gates(net)}
    is_plain = gates or any(layer.activation == HARD_SWISH for layer in layers)
    if not is_plain or not any(layer.is_depthwise for layer in layers):
        return graph
    whole = list(_with_expansions(net, _with_sums(net, [_with_gates(net, layer, gates) for layer in layers])))
    plain = {layer.end: layer for layer in whole}
    nodes = list(graph["nodes"])
    replacements: dict[int, Replacement | None] = {}
    for layer in whole:
        nodes[layer.end] = {**nodes[layer.end], "inputs": _inputs(net, layer)}
        replacements[layer.end] = functools.partial(_operator, net=net, layer=layer, plain=plain)
    for gate in gates.values():
        nodes[gate.end] = {**nodes[gate.end], "inputs": own_gates.inputs(net, gate)}
        replacements[gate.end] = functools.partial(_gate, net=net, gate=gate, plain=plain)
    return without_unused(with_replaced({**graph, "nodes": nodes}, replacements))


def _layers(net: Net) -> Iterator[_Layer]:
    """Yield the convolutions with norms for which there are operators."""
    graph = net.graph
    for place, node in enumerate(graph["nodes"]):
        norm = net.only_user(place)
        if node["op"] != "Convolution" or norm is None or not norm_relus.is_norm(graph, net.shapes, norm):
            continue
        depthwise = channel_runs.is_depthwise(graph, net.shapes, place)
        if depthwise or _is_pointwise(net, place):
            yield _Layer(place, norm, *_activation_behind(net, norm), depthwise)


def _is_pointwise(net: Net, place: int) -> bool:
    """Return whether this is a convolution of 1 x 1 with each place of a picture, which has more than one."""
    attributes, data = net.attributes(place), net.shape(net.node(place)["inputs"][0])
    return (
        net.is_product(place)
        and len(data) == OF_PICTURES
        and data[2] * data[3] > 1
        and (numbers(attributes, "stride") or (1, 1)) == (1, 1)
        and attributes.get("no_bias", "False") == "True"
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


def _with_gates(net: Net, layer: _Layer, gates: Mapping[int, Gate]) -> _Layer:
    """Return a layer with the product before it, where a gate of ours is one of its factors."""
    product = net.node(layer.convolution)["inputs"][0][0]
    is_alone = net.only_user(product) == layer.convolution and net.node(product)["op"] == "broadcast_mul"
    if layer.is_depthwise or not is_alone:
        return layer
    (source, *_), (factor, *_) = net.node(product)["inputs"]
    if factor not in gates or gates[factor].source[0] != source:
        return layer
    return layer._replace(gates=(product, factor))


def _with_expansions(net: Net, layers: Iterable[_Layer]) -> Iterator[_Layer]:
    """Yield the layers, with those of 1 x 1 that depthwise ones alone take as a part of these."""
    by_end = {layer.end: layer for layer in layers}
    for layer in list(by_end.values()):
        before = by_end.get(net.node(layer.convolution)["inputs"][0][0])
        if not layer.is_depthwise or before is None or before.is_depthwise or before.gates or before.added:
            continue
        if net.only_user(before.end) == layer.convolution:
            by_end[layer.end] = layer._replace(expansion=by_end.pop(before.end))
    yield from by_end.values()


def _with_sums(net: Net, layers: list[_Layer]) -> Iterator[_Layer]:
    """Yield the layers, with the sums behind those of 1 x 1, each of one layer."""
    taken: set[int] = set()
    for layer in reversed(layers):  # what a sum adds is there before its last operand
        total = net.only_user(layer.end)
        is_sum = total is not None and total not in taken and net.node(total)["op"] == "elemwise_add"
        if layer.is_depthwise or total is None or not is_sum:
            yield layer
            continue
        taken.add(total)
        one, other = net.node(total)["inputs"]
        yield layer._replace(end=total, added=one if other[0] == layer.end else other)


def _inputs(net: Net, layer: _Layer) -> list[list[int]]:
    """Return the data, gates, what the weights of an expansion and of the layer are made of, and what is added."""
    data, weights = net.node(layer.convolution)["inputs"]
    of_layer = [weights, *net.node(layer.norm)["inputs"][1:]]
    if layer.expansion is not None:
        return [*_inputs(net, layer.expansion), *of_layer]
    before, added = [data], [layer.added] if layer.added else []
    if layer.gates is not None:
        product, factor = layer.gates
        before = [net.node(product)["inputs"][0], [factor, 0, 0]]
    return [*before, *of_layer, *added]


def _operator(
    node: Mapping[str, Any],
    inputs: Inputs,
    add: AddNode,
    net: Net,
    layer: _Layer,
    plain: Mapping[int, _Layer],
) -> int:
    name, sources = node["name"], [source for source, *_ in _inputs(net, layer)]

    def plain_entry(place: int) -> list[int]:
        """Return an input, or a copy in plain order of what is not ours."""
        entry = inputs[place]
        return entry if sources[place] in plain else [add(plain_copy(f"{name}_plain{place}", entry)), 0, 0]

    def folded(of_weights: _Layer, first: int) -> list[int]:
        attributes = {**_norm(net, of_weights), "outputs": _outputs(net, of_weights)}
        attributes["inputs"] = str(net.shape(net.node(of_weights.convolution)["inputs"][0])[1])
        weights = inputs[first : first + OF_WEIGHTS]
        return [
            add({"op": FOLDED_NORM, "name": f"{name}_folded", "attrs": attributes, "inputs": weights}),
            0,
            0,
        ]

    data = plain_entry(0)
    attributes = {"activation": layer.activation}
    if layer.expansion is not None:
        attributes = {**attributes, **_norm(net, layer), **_sizes(net, layer)}
        attributes["outputs"] = _outputs(net, layer)
        attributes["activation_before"] = layer.expansion.activation
        entries = [data, folded(layer.expansion, 1), *inputs[1 + OF_WEIGHTS :]]
        return add({"op": EXPANDED, "name": name, "attrs": attributes, "inputs": entries})
    if layer.is_depthwise:
        attributes = {**attributes, **_norm(net, layer), **_sizes(net, layer), "is_judging": "1"}
        return add({"op": DEPTHWISE_NORM, "name": name, "attrs": attributes, "inputs": [data, *inputs[1:]]})
    weights = 2 if layer.gates else 1  # where they begin
    added = [plain_entry(weights + OF_WEIGHTS)] if layer.added else []
    entries = [data, *inputs[1:weights], folded(layer, weights), *added]
    operator = OPERATORS[layer.gates is not None, layer.added is not None]
    attributes["outputs"] = _outputs(net, layer)
    return add({"op": operator, "name": name, "attrs": attributes, "inputs": entries})


def _outputs(net: Net, layer: _Layer) -> str:
    return str(net.attributes(layer.convolution)["num_filter"])


def _norm(net: Net, layer: _Layer) -> dict[str, str]:
    return channel_runs.constants_of_norm(net.attributes(layer.norm))


def _sizes(net: Net, layer: _Layer) -> dict[str, str]:
    return channel_runs.sizes_of_convolution(net.attributes(layer.convolution))


def _gate(
    node: Mapping[str, Any], inputs: Inputs, add: AddNode, net: Net, gate: Gate, plain: Mapping[int, _Layer]
) -> int:
    (data, *weights), source = inputs, plain.get(gate.source[0])
    if source is None:
        data = [add(plain_copy(f"{node['name']}_plain", data)), 0, 0]
    elif source.expansion is not None:
        data = [data[0], MEANS, 0]  # the means of one number each are these numbers
    return own_gates.operator(node, [data, *weights], add, net, gate)
