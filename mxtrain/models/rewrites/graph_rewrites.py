"""Rewriting of the graphs that Gluon compiles nets from, in JSON as MXNet writes it.

Owns where rewrites take place, all over the process but for a time, and replacing nodes. What replaces what is each
rewrite's own module's; `models/chosen_rewrites.py` lists them. A rewritten graph has the same inputs in the same order,
the same values, and outputs of the same names.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import inspect
import json
import weakref
from types import MappingProxyType
from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence

from mxtrain.core import errors
from mxtrain.models import fallbacks
from mxtrain.models.compiled_graphs import OperatorByPurpose
from mxtrain.models.fallbacks import RewriteFailed
from mxtrain.runtime import mx
from mxtrain.runtime.own_operators import WEIGHTS
from mxtrain.runtime.types import Block, NDArray, Symbol

Graph = Mapping[str, Any]
Shape = Sequence[int]
Shapes = Mapping[str, Shape]  # of the nodes' outputs, by their names
Inputs = List[List[int]]  # of a node: each the position of a node, and the number of its output
AddNode = Callable[[Dict[str, Any]], int]
Rewrite = Callable[[Graph, Shapes], Graph]
ByPurpose = Mapping[str, Sequence[Rewrite]]  # what a graph is put through besides, by what it is computed for
# Takes a node and its inputs in the new graph, adds nodes, and returns the position of the one with the output.
Replacement = Callable[[Mapping[str, Any], Inputs, AddNode], int]
# Operators whose inputs are computed of parameters alone, wherever they are.
OF_PARAMETERS = (*WEIGHTS, "_rnn_param_concat")
FLOAT32 = ("0", "float32")  # as a variable and as a cast write it
PLAIN_AXES = "(0, 1, 2, 3)"  # of a transposition that moves none
CASTS = ("Cast", "amp_cast")  # a user's own, and those of mixed precision
# Operators that no gradient goes through, whatever they take.
WITHOUT_GRADIENT = {
    *("BlockGrad", "ones_like", "zeros_like", "_ones", "_zeros"),
    *("_arange", "_contrib_arange_like", "argmax", "argmin"),
    *(
        form.format(comparison)
        for form in ("_{}", "broadcast_{}", "_{}_scalar")
        for comparison in ("equal", "not_equal", "greater", "greater_equal", "lesser", "lesser_equal")
    ),
}


@dataclasses.dataclass
class Made:
    """The making of a block's graph, which is remembered beside the block: that may be the user's."""

    needed_rewrites: Sequence[Rewrite]
    output: Any = None  # its Symbol before it was rewritten
    shapes: Shapes = dataclasses.field(default_factory=dict)
    is_plain: bool = False  # rewritten only as far as it must be
    # What was made of the graph, by what made it.
    others: dict[Any, Any] = dataclasses.field(default_factory=dict)


_made: weakref.WeakKeyDictionary[Any, Made] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def rewriting(
    rewrites: Sequence[Rewrite] = (),
    by_purpose: ByPurpose = MappingProxyType({}),
    needed_rewrites: Sequence[Rewrite] = (),
) -> Iterator[None]:
    """A block in which HybridBlocks on CPUs compile what `rewrites`, one after the other, make of their graphs.

    They train, judge, and judge with gradients by what those `by_purpose` make of that: in training the backward pass
    may be faster and the forward pass slower; the others do the same whatever the sizes of inputs. All else, such as
    export, is by the graph without them. `needed_rewrites` are those that a block has after `take_plain_graphs` too, as
    one has of which another rewrite fails; without them there is no graph.
    Inside such a block another one stands in its place; what is compiled stays.
    """
    block = mx.gluon.HybridBlock
    before = block._get_graph, block._build_cache
    get_graph, build_cache = map(inspect.unwrap, before)

    @functools.wraps(get_graph)
    def get_rewritten_graph(self: Block, *args: NDArray) -> Any:
        is_new = not self._cached_graph
        inputs, output = get_graph(self, *args)
        if is_new and _are_on_cpu(args):
            made = _made.setdefault(self, Made(needed_rewrites))
            if not made.is_plain:
                made.needed_rewrites = needed_rewrites
            made.output, made.shapes, made.others = output, _shapes(inputs, args), {}
            self._cached_graph = inputs, _rewritten_or_plain(made, rewrites)
        return self._cached_graph

    @functools.wraps(build_cache)
    def build_caches(self: Block, *args: NDArray) -> None:
        build_cache(self, *args)
        if by_purpose and _are_on_cpu(args):
            # A block that is made from a graph was not asked for one.
            made = _made.get(self) or Made((), shapes=_shapes(self._cached_graph[0], args))
            chosen = {} if made.is_plain else dict(by_purpose)

            def rewrite(purpose: str, output: Symbol, shapes: Shapes) -> Symbol:
                return rewritten_for(purpose, output, shapes, chosen)

            self._cached_op = OperatorByPurpose(self, rewrite, made.shapes)

    block._get_graph, block._build_cache = get_rewritten_graph, build_caches
    try:
        yield
    finally:
        block._get_graph, block._build_cache = before


def is_rewriting() -> bool:
    """Return whether this is inside `rewriting`."""
    return hasattr(mx.gluon.HybridBlock._get_graph, "__wrapped__")


def take_plain_graphs(net: Block) -> bool:
    """Have a net on CPUs compiled anew, by graphs rewritten only as far as they must be; return whether it was more."""
    compiled: list[Any] = []

    def add(block: Block) -> None:
        if getattr(block, "_cached_graph", None) and block in _made and not _made[block].is_plain:
            compiled.append(block)

    net.apply(add)
    for block in compiled:
        _made[block].is_plain = True
        block._clear_cached_op()
    return bool(compiled)


def graph_as_made(net: Block) -> Made | None:
    """Return a net's graph before it was rewritten; None where it is no graph, or has to keep the one that it has."""
    made = _made.get(net)
    return None if made is None or made.output is None or made.is_plain else made


def _are_on_cpu(args: Sequence[NDArray]) -> bool:
    return all(isinstance(arg, mx.nd.NDArray) and arg.context.device_type == "cpu" for arg in args)


def _shapes(inputs: Sequence[Symbol], args: Sequence[NDArray]) -> Shapes:
    return {symbol.name: arg.shape for symbol, arg in zip(inputs, args)}


def _rewritten_or_plain(made: Made, rewrites: Sequence[Rewrite]) -> Symbol:
    if not made.is_plain:
        try:
            return rewritten(made.output, made.shapes, rewrites)
        except RewriteFailed as error:
            made.is_plain = True
            fallbacks.report("the net's graph cannot be rewritten for speed", error, fallbacks.AS_IT_IS)
    return rewritten(made.output, made.shapes, made.needed_rewrites)


def rewritten_for(
    purpose: str, output: Symbol, input_shapes: Shapes, by_purpose: dict[str, Sequence[Rewrite]]
) -> Symbol:
    """Return what the rewrites `by_purpose` make of a graph; where one fails, those of its purpose are taken out."""
    try:
        return rewritten(output, input_shapes, by_purpose.get(purpose, ()))
    except RewriteFailed as error:
        by_purpose[purpose] = ()
        fallbacks.report(f"the net's graph cannot be rewritten for {purpose}", error, fallbacks.AS_IT_IS)
        return output


def rewritten(output: Symbol, input_shapes: Shapes, rewrites: Sequence[Rewrite]) -> Symbol:
    """Return a Symbol that computes what `output` does; RewriteFailed names the rewrite that is at fault."""
    if not rewrites:
        return output
    before, shapes = nodes_and_shapes(output, input_shapes)
    after, name = before, ""
    try:
        for rewrite in rewrites:
            name = getattr(rewrite, "__qualname__", type(rewrite).__qualname__)
            after = rewrite(after, shapes)
        name = "what they make"
        found = output if after is before else mx.sym.load_json(json.dumps(after))
    except Exception as error:
        raise RewriteFailed(f"{name}: {errors.message_of(error)}") from error
    if found.list_inputs() != output.list_inputs():
        raise RewriteFailed("what they make: takes other inputs than the graph")
    return found


def nodes_and_shapes(output: Symbol, input_shapes: Shapes) -> tuple[Graph, Shapes]:
    """Return the graph of a Symbol, and the shapes of its nodes' outputs as far as MXNet knows them."""
    internals = output.get_internals()
    _, shapes, _ = internals.infer_shape_partial(**input_shapes)
    graph = json.loads(output.tojson(remove_amp_cast=False))  # else a net for bfloat16 becomes one in float32
    # A rewrite keeps the names of what it replaces.
    return graph, dict(zip(internals.list_outputs(), shapes or []))


def shape_of(graph: Graph, shapes: Shapes, source: int, output: int) -> Shape:
    """Return the shape of an output of the node at `source`; an empty one where it is not known."""
    while graph["nodes"][source]["op"] == "amp_cast":  # younger than `shapes`
        source, output, *_ = graph["nodes"][source]["inputs"][0]
    name = graph["nodes"][source]["name"]
    # The name of a variable, of an operator's only output, of one of several outputs.
    names = (name, f"{name}_output", f"{name}_output{output}")
    return next((shapes[each] for each in names if each in shapes), ())


def outputs_of(graph: Graph) -> set[int]:
    """Return the positions of the nodes that the graph passes on."""
    return {head for head, *_ in graph["heads"]}


def users_of(graph: Graph) -> dict[int, list[int]]:
    """Return the positions of the nodes that take outputs of each node, once for each time that they do."""
    users: dict[int, list[int]] = {}
    for position, node in enumerate(graph["nodes"]):
        for source, *_ in node["inputs"]:
            users.setdefault(source, []).append(position)
    return users


def numbers(attributes: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """Return the numbers of an attribute such as `stride`; none where it is not given."""
    return tuple(ast.literal_eval(str(attributes.get(name, ()))))


def are_float32(weights: Mapping[str, Any]) -> bool:
    """Return whether the node of these weights, a variable or the cast of one, is float32."""
    attributes = weights.get("attrs", {})
    return attributes.get("dtype" if weights["op"] == "amp_cast" else "__dtype__", "0") in FLOAT32


def in_float32(graph: Graph) -> set[int]:
    """Return the positions of the nodes that are known to give float32: weights, casts, and what comes of them.

    Of the type of data, such as tokens, the graph says nothing.
    """
    wide: set[int] = set()
    for place, node in enumerate(graph["nodes"]):
        if node["op"] == "null":
            is_wide = "__dtype__" in node.get("attrs", {}) and are_float32(node)
        elif node["op"] in CASTS:
            is_wide = node["attrs"]["dtype"] == "float32"
        else:
            is_wide = any(source in wide for source, *_ in node["inputs"])
        if is_wide:
            wide.add(place)
    return wide


def in_bfloat16(graph: Graph) -> set[int]:
    """Return the positions of the nodes that give bfloat16: from a cast to it on, up to a cast to float32."""
    narrow: set[int] = set()
    for place, node in enumerate(graph["nodes"]):
        first = next((source for source, *_ in node["inputs"]), -1)
        if node["op"] in CASTS:
            if node["attrs"]["dtype"] == "bfloat16":
                narrow.add(place)
        elif first in narrow:
            narrow.add(place)
    return narrow


def plain_copy(name: str, entry: list[int]) -> dict[str, Any]:
    """Return a node that copies float32 pictures to plain order; its backward pass does so with the gradient.

    Not for bfloat16, of which it writes float32, beyond the array's end.

    An operator that oneDNN does not compute needs plain arrays. Of blocked ones MXNet makes copies for it, of both
    inputs and of the output of its backward pass, and in a static graph keeps each for good. This node's copies are the
    graph's own arrays, in memory that is used again. A transposition that moves no axis is it because oneDNN computes
    it, and because unlike a reshape it never works in place, for which oneDNN copies twice.
    """
    return {"op": "transpose", "name": name, "attrs": {"axes": PLAIN_AXES}, "inputs": [entry]}


def is_plain_copy(node: Mapping[str, Any]) -> bool:
    """Return whether this is such a node."""
    return bool(node["op"] == "transpose" and node.get("attrs", {}).get("axes") == PLAIN_AXES)


def gradient_copy(name: str, entry: list[int]) -> dict[str, Any]:
    """Return a node that copies an input of a library's operator.

    Such an operator writes its gradient where it may have to add to one, as MXNet does not tell it; a copy adds.
    """
    return {"op": "_copy", "name": name, "attrs": {}, "inputs": [entry]}


def input_itself(node: Mapping[str, Any], inputs: Inputs, add: AddNode) -> int:
    """Return a node's first input: a Replacement of a node that is left out."""
    return inputs[0][0]


def with_replaced(graph: Graph, replacements: Mapping[int, Replacement | None]) -> Graph:
    """Return the graph with what `replacements` make of the nodes at their positions; the same one without any."""
    if not any(replacements.values()):
        return graph
    nodes: list[dict[str, Any]] = []
    new_positions: list[int] = []  # of the node that has each old node's output

    def add(node: dict[str, Any]) -> int:
        nodes.append(node)
        return len(nodes) - 1

    for position, node in enumerate(graph["nodes"]):
        inputs = [[new_positions[source], *rest] for source, *rest in node["inputs"]]
        replace = replacements.get(position)
        new_positions.append(replace(node, inputs, add) if replace else add({**node, "inputs": inputs}))
    return {
        "nodes": nodes,
        "arg_nodes": [new_positions[position] for position in graph["arg_nodes"]],
        "heads": [[new_positions[position], *rest] for position, *rest in graph["heads"]],
        "attrs": graph["attrs"],
    }
