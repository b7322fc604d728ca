"""The features that a net's head takes, read off its graph.

The head is the last Dense layer, or the last convolution where a net ends in one (MobileNetV2, SqueezeNet): from it to
the output there are no more weights. Features of a convolution are means over the picture.
"""

from __future__ import annotations

import json
from typing import Any, Mapping, Sequence

from mxtrain.core.errors import UsageError
from mxtrain.models.rewrites.graph_rewrites import CASTS
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, NDArray, Net, Symbol

HEADS = ("FullyConnected", "Convolution")
# Operators that may stand behind a head: they have no weights, and give each sample what it had.
BEHIND = (
    *(
        *CASTS,
        "Flatten",
        "Reshape",
        "reshape",
        "squeeze",
        "Activation",
        "Pooling",
        "mean",
        "identity",
        "_copy",
    ),
    *("softmax", "log_softmax", "sigmoid", "LeakyReLU", "clip", "transpose", "Dropout", "_mul_scalar"),
    "broadcast_div",  # by the lengths of weights, in a head of cosines
)


class Tapped:
    """A net, called as it is, that keeps what its head took."""

    def __init__(self, net: Block, inputs: Sequence[Symbol], output: Symbol, taken: Symbol):
        both = mx.sym.Group([output, taken])
        names = both.list_inputs()
        input_names = [each.name for each in inputs]
        self.taken: Any = None
        self._input_positions = [input_names.index(name) if name in input_names else None for name in names]
        parameters = net.collect_params()
        self._parameters = [parameters[name] for name in names if name not in input_names]
        self._both = mx.nd.CachedOp(both)

    def __call__(self, *inputs: Any) -> Any:
        values = (parameter.data(inputs[0].context) for parameter in self._parameters)
        arrays = [next(values) if place is None else inputs[place] for place in self._input_positions]
        output, self.taken = self._both(*arrays)
        return output


def tapped(net: Net, name: str) -> Tapped:
    """Return the compiled net, called `name` in messages, with its features; UsageError where the graph shows none."""
    if not isinstance(net, mx.gluon.HybridBlock) or not net._cached_graph:
        raise UsageError(f"--embed: {name} runs imperatively, without a graph to find its head in")
    inputs, output = net._cached_graph
    graph = json.loads(output.tojson(remove_amp_cast=False))
    head = _head(graph, name)
    source, number, *_ = graph["nodes"][head]["inputs"][0]
    taken = _output(output, graph["nodes"][source], number)
    return Tapped(net, inputs, output, taken)


def by_sample(taken: NDArray, name: str) -> NDArray:
    """Return features as float32 (samples, features)."""
    taken = taken.astype("float32", copy=False)
    if taken.ndim == 3 or taken.ndim < 2:
        raise UsageError(
            f"--embed: {name} has features of each token, {taken.shape[1:]}, and not of each sample"
        )
    return taken.mean(axis=tuple(range(2, taken.ndim))) if taken.ndim > 2 else taken


def _head(graph: Mapping[str, Any], name: str) -> int:
    """Return the position of the node from which all goes to the output without weights."""
    nodes = graph["nodes"]
    place = graph["heads"][0][0]
    while nodes[place]["op"] in BEHIND:
        place = nodes[place]["inputs"][0][0]
    if len(graph["heads"]) > 1 or nodes[place]["op"] not in HEADS:
        op = nodes[place]["op"]
        raise UsageError(
            f"--embed: {name} ends in no Dense layer or convolution, but in {nodes[place]['name']} ({op}); its "
            "features cannot be told"
        )
    return int(place)


def _output(symbol: Symbol, node: Mapping[str, Any], number: int) -> Symbol:
    """Return an output of a node as a Symbol."""
    internals = symbol.get_internals()
    names = internals.list_outputs()
    wanted = (node["name"], f"{node['name']}_output", f"{node['name']}_output{number}")
    return internals[next(names.index(each) for each in wanted if each in names)]
