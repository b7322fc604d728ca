"""A net in int8 for CPUs: its convolutions and dense layers by oneDNN's whole-number kernels, of a float32 graph.

Owns which operators become int8 and which stay float32. The ranges that int8 numbers cover are `calibration.py`'s.

The graph keeps float32 weights, which MXNet turns into int8 at the first batch: a net in int8 is faster, and its file
no smaller. Of MXNet 1.9.1's ways only this one works: types by "auto" and ranges beforehand. Entropy with "int8" fails,
and without ranges channel-wise weights end the process.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import sys
import types
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Sequence

import numpy as np

from mxtrain.core.errors import UsageError
from mxtrain.data.fields import Array
from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.export.int8 import int8_sums, joined_convolutions
from mxtrain.export.int8.calibration import Ranges, calibrate
from mxtrain.export.real_samples import Batch
from mxtrain.models.autocast import wrong_kernels
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.runtime import mx

if TYPE_CHECKING:
    from mxtrain.runtime.types import Symbol

quantization = mx.contrib.quantization

LAYERS = ("Convolution", "FullyConnected")
# Beginnings of operators' names: those that MXNet joins of several, those in int8, those between int8 and float32.
JOINED, QUANTISED = "_sg_mkldnn_", "_contrib_quantized_"
CONVERSIONS = ("_contrib_quantize_v2", "_contrib_dequantize", "_contrib_requantize")
# Its int8 kernel takes no uint8, which "auto" gives it where nothing is negative: mobilenetv3 would end with an error.
NOT_QUANTISED = ("elemwise_mul",)
NO_COMPUTING = ("Flatten", "Reshape", "reshape", "expand_dims", "squeeze", "identity", "_copy", "Dropout")


class Int8(NamedTuple):
    """A graph in int8, and which of its operators are."""

    graph: InferenceGraph
    ranges: str  # "entropy" or "extremes"
    num_int8: int
    in_float32: list[str]  # the kind and name of each operator, those that compute nothing left out


def quantised(
    graph: InferenceGraph, answers: Sequence[Array], batches: Sequence[Batch], exclude: Sequence[str] = ()
) -> Int8:
    """Return the graph in int8, by those ranges whose answers to `batches` are nearer to the net's own, `answers`.

    Operators whose name or kind fits a pattern of `exclude`, as "*_conv0_*" or "FullyConnected" do, stay float32.
    UsageError where no layer is left that can be in int8.
    """
    fused = joined_convolutions.joined(graph, batches)
    excluded = _left_out(graph, fused, exclude)
    symbol, names = _converted(fused, graph, excluded)
    if not any(map(_is_int8_layer, nodes(symbol))):
        raise _no_layer(graph, exclude)
    measured = calibrate(fused, graph, names, batches)
    candidates = {name: _with_ranges(graph, symbol, ranges) for name, ranges in measured._asdict().items()}
    try:
        ways = {name: _apart(each, answers, batches) for name, each in candidates.items()}
    except mx.base.MXNetError as error:
        reason = str(error).strip().splitlines()[-1]
        raise UsageError(
            f"--to int8: MXNet cannot compute {graph.name} in int8 ({reason}); leave kinds of operators "
            "out by --exclude"
        ) from None
    best = min(ways, key=lambda name: ways[name])
    of_best = nodes(candidates[best].symbol)
    return Int8(candidates[best], best, sum(map(_is_int8, of_best)), in_float32(of_best))


def sensitive_layers(
    graph: InferenceGraph,
    answers: Sequence[Array],
    batches: Sequence[Batch],
    exclude: Sequence[str] = (),
    count: int = 3,
) -> list[str]:
    """Return the layers of which int8 costs most: each is left in float32 in its turn, and the answers are compared."""
    fused = joined_convolutions.joined(graph, batches)
    excluded = _left_out(graph, fused, exclude)
    symbol, names = _converted(fused, graph, excluded)
    ranges = calibrate(fused, graph, names, batches).extremes
    apart = {}
    for node in nodes(symbol):
        if _is_int8_layer(node):
            layer = _layer_of(node)["name"]
            without, _ = _converted(fused, graph, [*excluded, layer])
            apart[layer] = _apart(_with_ranges(graph, without, ranges), answers, batches)
    return sorted(apart, key=lambda name: apart[name])[:count]


def _converted(symbol: Symbol, graph: InferenceGraph, excluded: list[str]) -> tuple[Symbol, list[str]]:
    """Return a graph in int8 still without ranges, and the names of the arrays that need some."""
    with _without_remarks():
        made, _, _, collector = quantization.quantize_graph(
            symbol,
            graph.arguments,
            graph.auxiliaries,
            excluded_sym_names=excluded,
            excluded_op_names=list(NOT_QUANTISED),
            calib_mode="naive",
            quantized_dtype="auto",
        )
    return made, collector.include_layer


def _with_ranges(graph: InferenceGraph, symbol: Symbol, ranges: Ranges) -> InferenceGraph:
    """Return the graph in int8, `symbol`, with these ranges written into it."""
    symbol, arguments, auxiliaries = quantization.calib_graph(
        symbol,
        graph.arguments,
        graph.auxiliaries,
        types.SimpleNamespace(min_max_dict=ranges),
        calib_mode="customize",
        quantized_dtype="auto",
    )
    symbol = symbol.get_backend_symbol(joined_convolutions.BACKEND)
    symbol = int8_sums.with_wide_ranges(symbol, {**arguments, **auxiliaries})
    return graph._replace(symbol=symbol, arguments=arguments, auxiliaries=auxiliaries)


def _apart(graph: InferenceGraph, answers: Sequence[Array], batches: Sequence[Batch]) -> float:
    """Return the sum of squared differences of the graph's answers from `answers`."""
    weights, compute = {**graph.arguments, **graph.auxiliaries}, mx.nd.CachedOp(graph.symbol)
    total = 0.0
    for batch, answer in zip(batches, answers):
        arrays = {**weights, **{name: mx.nd.array(each) for name, each in batch.items()}}
        output = compute(*(arrays[name] for name in graph.symbol.list_inputs()))
        total += float(np.square(output.asnumpy() - answer, dtype=np.float64).sum())
    return total


def _no_layer(graph: InferenceGraph, exclude: Sequence[str]) -> UsageError:
    operators = ", ".join(sorted({node["op"] for node in nodes(graph.symbol)} - {"null"}))
    left = " that --exclude leaves" if exclude else ""
    return UsageError(
        f"--to int8: {graph.name} has no convolution or dense layer{left} that MXNet computes in int8 (it computes "
        f"{operators}); --to symbol exports it as it is"
    )


def excluded_names(graph: InferenceGraph, patterns: Sequence[str]) -> list[str]:
    """Return the names of the operators that fit one of `patterns`; UsageError for a pattern that none fits."""
    names: dict[str, None] = {}
    operators = [node for node in nodes(graph.symbol) if node["op"] != "null"]
    for pattern in patterns:
        fitting = [
            node["name"]
            for node in operators
            if fnmatch.fnmatchcase(node["name"], pattern) or fnmatch.fnmatchcase(node["op"], pattern)
        ]
        if not fitting:
            examples = ", ".join(f"{node['op']} {node['name']}" for node in operators[:3])
            raise UsageError(
                f"--exclude {pattern}: fits no operator of {graph.name}, by name or by kind; the first are {examples}"
            )
        names.update(dict.fromkeys(fitting))
    return list(names)


def _left_out(graph: InferenceGraph, fused: Symbol, exclude: Sequence[str]) -> list[str]:
    """Return the names of the operators that stay float32: by `exclude`, or as their int8 kernels are wrong."""
    return [*dict.fromkeys([*excluded_names(graph, exclude), *_overrunning(graph), *_relus_of_sums(fused)])]


def _overrunning(graph: InferenceGraph) -> Iterator[str]:
    """Yield the convolutions whose kernels for AMX overrun memory, on any machine: the net may be used on another."""
    whole, shapes = graph_rewrites.nodes_and_shapes(graph.symbol, graph.shapes_of(1))
    for place, node in enumerate(whole["nodes"]):
        if node["op"] == "Convolution":
            output = graph_rewrites.shape_of(whole, shapes, place, 0)
            if wrong_kernels.overruns_memory(node["attrs"], output):
                yield node["name"]


def _relus_of_sums(fused: Symbol) -> Iterator[str]:
    """Yield each ReLU after a sum, neither of them joined to a convolution: MXNet computes garbage of the two in int8.

    It is so after squeeze and excitation, whose products stay float32.
    """
    every = nodes(fused)
    for node in every:
        if node["op"] == "Activation" and every[node["inputs"][0][0]]["op"] == "elemwise_add":
            yield node["name"]


def in_float32(of_graph: Sequence[dict[str, Any]]) -> list[str]:
    """Return which nodes of a graph in int8 still compute in float32, each by its kind and name."""
    found = []
    for node in of_graph:
        is_converting = node["op"].startswith(CONVERSIONS) or node["op"] in (*NO_COMPUTING, "null")
        if is_converting or _is_int8(node):
            continue
        inner = _layer_of(node)
        found.append(f"{inner['op']} {inner['name']}")
    return found


def nodes(symbol: Symbol) -> list[dict[str, Any]]:
    """Return the nodes of a graph as MXNet writes them."""
    found: list[dict[str, Any]] = json.loads(symbol.tojson())["nodes"]
    return found


def _layer_of(node: dict[str, Any]) -> dict[str, Any]:
    """Return the convolution or dense layer in a joined operator; another operator is itself."""
    joined = (each for graph in node.get("subgraphs", []) for each in graph["nodes"])
    return next((each for each in joined if each["op"] in LAYERS), node)


def _is_int8_layer(node: dict[str, Any]) -> bool:
    is_joined: bool = node["op"].startswith(JOINED)
    return is_joined and str(node.get("attrs", {}).get("quantized")).lower() == "true"


def _is_int8(node: dict[str, Any]) -> bool:
    return _is_int8_layer(node) or node["op"].startswith(QUANTISED)


@contextlib.contextmanager
def _without_remarks() -> Iterator[None]:
    """A block in which nothing gets to stderr: MXNet says there of each operator that it has no int8 kernel."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
