"""Where a net joins channels: MXNet 1.9.1's concat, in a form whose gradient oneDNN can take apart.

oneDNN keeps the gradient of a concat in blocks of 16 channels where their sum allows it. Parts that are no whole blocks
cannot be cut from it: the backward pass ends with "could not construct a sub-memory" (parts of 24), or the process with
SIGFPE (parts of 8). A concat of arrays with one more axis is MXNet's own and has no blocks.
"""

from __future__ import annotations

import functools
import json
from typing import Any, Mapping, Sequence

from mxtrain.runtime import mx

BLOCK = 16  # with AVX-512; with less it is 8
CHANNELS, NUM_AXES = 1, 4  # of a batch of pictures; a new axis comes after its last

Graph = Mapping[str, Any]  # a Symbol's, as MXNet writes it
Shape = Sequence[int]


def route_around() -> None:
    """From now on HybridBlocks build their graphs for CPUs without the concats that break."""
    build = mx.gluon.HybridBlock._get_graph
    if hasattr(build, "__wrapped__"):
        return

    @functools.wraps(build)
    def get_graph(self: Any, *args: Any) -> Any:
        is_new = not self._cached_graph
        inputs, output = build(self, *args)
        if is_new and all(
            isinstance(arg, mx.nd.NDArray) and arg.context.device_type == "cpu" for arg in args
        ):
            self._cached_graph = inputs, _mended(output, {s.name: arg.shape for s, arg in zip(inputs, args)})
        return self._cached_graph

    mx.gluon.HybridBlock._get_graph = get_graph


def _mended(output: Any, shapes: Mapping[str, Shape]) -> Any:
    graph, internals = json.loads(output.tojson()), output.get_internals()
    _, of_outputs, _ = internals.infer_shape_partial(**shapes)
    breaking = unaligned(graph, dict(zip(internals.list_outputs(), of_outputs or [])))
    return mx.sym.load_json(json.dumps(with_new_axis(graph, breaking))) if breaking else output


def unaligned(graph: Graph, shapes: Mapping[str, Shape]) -> list[int]:
    """The nodes that join pictures' channels and do not take whole blocks; `shapes` are of the nodes' outputs."""

    def shape_of(source: int, which: int) -> Shape:
        name = graph["nodes"][source]["name"]
        names = (name, f"{name}_output", f"{name}_output{which}")  # of a variable, of one, of one of many
        return next((shapes[each] for each in names if each in shapes), ())

    return [
        place
        for place, node in enumerate(graph["nodes"])
        if node["op"] == "Concat" and any(_breaks(node, shape_of(*entry[:2])) for entry in node["inputs"])
    ]


def _breaks(node: Mapping[str, Any], shape: Shape) -> bool:
    axis = int(node.get("attrs", {}).get("dim", CHANNELS))
    return (
        len(shape) == NUM_AXES and axis in (CHANNELS, CHANNELS - len(shape)) and shape[CHANNELS] % BLOCK != 0
    )


def with_new_axis(graph: Graph, places: Sequence[int]) -> Graph:
    """The same graph, but the nodes at `places` join arrays with a last axis of one."""
    nodes: list[dict[str, Any]] = []
    moved: list[int] = []  # where each node's output comes from now

    def add(node: Mapping[str, Any], **changes: Any) -> int:
        nodes.append({**node, **changes})
        return len(nodes) - 1

    for place, node in enumerate(graph["nodes"]):
        inputs = [[moved[source], *rest] for source, *rest in node["inputs"]]
        if place not in places:
            moved.append(add(node, inputs=inputs))
            continue
        axis, name = {"axis": str(NUM_AXES)}, node["name"]
        parts = [
            add({"op": "expand_dims", "name": f"{name}_part{number}", "attrs": axis, "inputs": [part]})
            for number, part in enumerate(inputs)
        ]
        dim = {**node["attrs"], "dim": str(CHANNELS)}
        joined = add(node, attrs=dim, name=f"{name}_parts", inputs=[[part, 0, 0] for part in parts])
        moved.append(add({"op": "squeeze", "name": name, "attrs": axis, "inputs": [[joined, 0, 0]]}))
    return {
        "nodes": nodes,
        "arg_nodes": [moved[place] for place in graph["arg_nodes"]],
        "heads": [[moved[place], *rest] for place, *rest in graph["heads"]],
        "attrs": graph["attrs"],
    }
