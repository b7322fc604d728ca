"""Floating-point operations of a net, operator by operator, from its graph: nothing is computed.

Owns the count. What counts is products, two operations for each multiplication and addition: convolutions, dense and
recurrent layers, attention. All else is a hundredth of these. An operator goes backward once for each factor that needs
a gradient; what --remat computes again does not count.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Collection, Mapping, NamedTuple, Sequence

from mxtrain.models import remat
from mxtrain.models.rewrites.graph_rewrites import Graph, Shape, Shapes, nodes_and_shapes, shape_of
from mxtrain.runtime.types import Block

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
UNKNOWN = ("Custom", "_foreach", "_while_loop", "_cond")  # operators that hold others, or a user's code
# What `mx.np` calls the same.
OTHER_NAMES = {
    "_npx_convolution": "Convolution",
    "_npx_deconvolution": "Deconvolution",
    "_npx_fully_connected": "FullyConnected",
    "_npx_batch_dot": "batch_dot",
    "_npx_rnn": "RNN",
    "_npi_matmul": "batch_dot",
    "_np_dot": "dot",
}


class NodeFlops(NamedTuple):
    """The operations of an operator of the net."""

    name: str
    operator: str
    forward: int
    backward: int


class Product(NamedTuple):
    """A multiplication of matrices: its operations, and the inputs of its node that are the factors."""

    flops: int
    factors: tuple[int, ...]


def of_net(net: Block, inputs: Sequence[Shape]) -> list[NodeFlops] | None:
    """Return the operations of a compiled net for inputs of these shapes, those of one sample for instance.

    None for a net that is no graph, or one whose graph does not tell.
    """
    graph = remat.graph_of(net)
    if graph is None:
        return None
    data, output = graph
    trained = {
        name
        for name, parameter in net.collect_params().items()
        if getattr(parameter, "grad_req", "null") != "null"
    }
    input_shapes = {symbol.name: shape for symbol, shape in zip(data, inputs)}
    return of_graph(*nodes_and_shapes(output, input_shapes), trained)


def of_graph(graph: Graph, shapes: Shapes, trained: Collection[str]) -> list[NodeFlops] | None:
    """Return the operations of a graph's operators; `trained` are the names of the parameters that have gradients."""
    counted = []
    needs_gradient: list[bool] = []
    for node in graph["nodes"]:
        sources = [source for source, *_ in node["inputs"]]
        is_needed = any(needs_gradient[source] for source in sources) or node["name"] in trained
        needs_gradient.append(is_needed)
        operator = OTHER_NAMES.get(node["op"], node["op"])
        if operator in UNKNOWN:
            return None
        if operator not in PRODUCTS:
            continue
        ins = [shape_of(graph, shapes, *entry[:2]) for entry in node["inputs"]]
        out = shape_of(graph, shapes, len(needs_gradient) - 1, 0)
        if not (all(ins[:2]) and out):
            return None
        products = PRODUCTS[operator](node.get("attrs", {}), ins, out)
        backward = 0
        for flops, factors in products:
            needed = [is_needed if each == ITSELF else needs_gradient[sources[each]] for each in factors]
            backward += flops * sum(needed)
        counted.append(NodeFlops(node["name"], operator, sum(each.flops for each in products), backward))
    return counted


# ------------------------------------------------------------------------------------------------------------
# Operators: from attributes and the shapes of inputs and output to products

Attributes = Mapping[str, Any]
ITSELF = -1  # a factor that the operator has computed itself


def _convolution(_: Attributes, ins: Sequence[Shape], out: Shape) -> list[Product]:
    return [Product(2 * math.prod(out) * math.prod(ins[1][1:]), (0, 1))]


def _deconvolution(_: Attributes, ins: Sequence[Shape], out: Shape) -> list[Product]:
    return [Product(2 * math.prod(ins[0]) * math.prod(ins[1][1:]), (0, 1))]


def _dense(_: Attributes, ins: Sequence[Shape], out: Shape) -> list[Product]:
    return [Product(2 * math.prod(out) * ins[1][1], (0, 1))]


def _batch_dot(attributes: Attributes, ins: Sequence[Shape], out: Shape) -> list[Product]:
    inner = ins[0][-2 if _is_true(attributes, "transpose_a") else -1]
    return [Product(2 * math.prod(out) * inner, (0, 1))]


def _dot(attributes: Attributes, ins: Sequence[Shape], out: Shape) -> list[Product]:
    inner = ins[0][0 if _is_true(attributes, "transpose_a") else -1]
    return [Product(2 * math.prod(out) * inner, (0, 1))]


def _attention_scores(attributes: Attributes, ins: Sequence[Shape], out: Shape) -> list[Product]:
    """Take queries, keys and values interleaved in one array, or queries apart."""
    is_self = len(ins) == 1
    width = ins[0][2] // (3 if is_self else 1) // int(attributes["heads"])
    return [Product(2 * math.prod(out) * width, (0, 0) if is_self else (0, 1))]


def _attention_values(of_self: bool) -> Callable[[Attributes, Sequence[Shape], Shape], list[Product]]:
    def products(attributes: Attributes, ins: Sequence[Shape], out: Shape) -> list[Product]:
        width = ins[0][2] // (3 if of_self else 2) // int(attributes["heads"])
        return [Product(2 * math.prod(ins[1]) * width, (0, 1))]

    return products


def _recurrent(attributes: Attributes, ins: Sequence[Shape], out: Shape) -> list[Product]:
    """Go from layer to layer: each multiplies what comes from below, and what comes from the step before."""
    length, batch, width = ins[0]
    hidden, directions = int(attributes["state_size"]), 1 + _is_true(attributes, "bidirectional")
    projected = attributes.get("projection_size")
    handed_on = hidden if projected in (None, "None") else int(projected)
    per_number = 2 * length * batch * directions * GATES[attributes["mode"]] * hidden
    found = []
    for layer in range(int(attributes["num_layers"])):
        below, source = (handed_on * directions, ITSELF) if layer else (width, 0)
        found += [Product(per_number * below, (source, 1)), Product(per_number * handed_on, (ITSELF, 1))]
        if handed_on != hidden:
            found.append(Product(2 * length * batch * directions * hidden * handed_on, (ITSELF, 1)))
    return found


def _is_true(attributes: Attributes, name: str) -> bool:
    return str(attributes.get(name, "False")) in ("True", "1")


PRODUCTS: dict[str, Callable[[Attributes, Sequence[Shape], Shape], list[Product]]] = {
    "Convolution": _convolution,
    "Deconvolution": _deconvolution,
    "FullyConnected": _dense,
    "dot": _dot,
    "batch_dot": _batch_dot,
    "_linalg_gemm2": _batch_dot,
    "RNN": _recurrent,
    "_contrib_interleaved_matmul_selfatt_qk": _attention_scores,
    "_contrib_interleaved_matmul_selfatt_valatt": _attention_values(of_self=True),
    "_contrib_interleaved_matmul_encdec_qk": _attention_scores,
    "_contrib_interleaved_matmul_encdec_valatt": _attention_values(of_self=False),
}
