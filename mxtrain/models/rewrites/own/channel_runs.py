"""Depthwise convolutions with the norms and activations around them as one operator of ours.

These layers compute each channel by itself, so ours takes one through all of them while it is in the cache, and keeps
nothing in between for the backward pass. MXNet's go through memory for each, put arrays in order for activations that
are not oneDNN's, and have slow kernels for the gradients of depthwise weights. A norm by itself is ours where such an
activation follows it. Arrays are in plain order on both sides.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any, Callable, Mapping, NamedTuple

from mxtrain import native
from mxtrain.models.rewrites import hard_sigmoids, norm_relus
from mxtrain.models.rewrites.graph_rewrites import (
    AddNode,
    Graph,
    Inputs,
    Replacement,
    Shapes,
    are_float32,
    gradient_copy,
    in_bfloat16,
    input_itself,
    is_plain_copy,
    numbers,
    outputs_of,
    plain_copy,
    shape_of,
    users_of,
    with_replaced,
)
from mxtrain.runtime.own_operators import DEPTHWISE_NORM, NORM, NORM_DEPTHWISE_NORM

IDENTITY, RELU, RELU6, HARD_SWISH = "identity", "relu", "relu6", "hard_swish"
NOT_OF_ONEDNN = (RELU6, HARD_SWISH)
KERNELS, STRIDES = (3, 5, 7), (1, 2)
MOVED = {NORM: (3, 4), DEPTHWISE_NORM: (4, 5), NORM_DEPTHWISE_NORM: (3, 4, 8, 9)}  # running statistics
# What passes on the order of arrays, or of their gradients.
PASSING = ("elemwise_add", "add_n", "Concat", "Pooling", "Activation", "BatchNorm")


class _Norm(NamedTuple):
    """A BatchNorm, the activation behind it, and the node whose output is that of both."""

    place: int
    activation: str
    end: int


class _Run(NamedTuple):
    """Layers that become one operator: a convolution with the norm behind it, and one before it, or that norm alone."""

    before: _Norm | None
    convolution: int | None
    behind: _Norm


class _Wiring(NamedTuple):
    """A graph's nodes, by whom their outputs are taken, and which outputs are the graph's."""

    nodes: list[dict[str, Any]]
    users: Mapping[int, list[int]]
    outputs: set[int]

    def copies(self, place: int) -> list[int]:
        """Return the nodes that copy an output to plain order."""
        return [user for user in self.users.get(place, ()) if is_plain_copy(self.nodes[user])]

    def users_behind_copies(self, place: int) -> list[int]:
        """Return the nodes that take an output, or a copy of it."""
        behind = []
        for user in self.users.get(place, ()):
            behind += self.users_behind_copies(user) if is_plain_copy(self.nodes[user]) else [user]
        return behind

    def only_user(self, place: int) -> int | None:
        """Return the node that alone takes an output, or a copy of it."""
        (user, *others) = self.users_behind_copies(place) or [-1]
        return None if user < 0 or others or self.is_output(place) else user

    def is_output(self, place: int) -> bool:
        return place in self.outputs or any(map(self.is_output, self.copies(place)))

    def source(self, entry: list[int]) -> list[int]:
        """Return what an input is a copy of, or itself."""
        node = self.nodes[entry[0]]
        return self.source(node["inputs"][0]) if is_plain_copy(node) else entry


def with_channel_runs(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph with our operator for each run of such layers; without the part in C the same graph."""
    wiring = _wiring(graph)
    return _with_operators(graph, wiring, _runs(graph, shapes, wiring))


def with_evaluated_runs(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph, which nothing goes back through, with our operator for each run, frozen norms among them."""
    wiring = _wiring(graph)
    return _with_operators(graph, wiring, _runs(graph, shapes, wiring, is_judging=True), is_judging=True)


def with_judged_runs(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph, which nothing goes back through, with our operator for each run that has a hard swish.

    All others MXNet joins to the convolutions before them.
    """
    wiring = _wiring(graph)
    runs = [run for run in _runs(graph, shapes, wiring, is_judging=True) if HARD_SWISH in _activations(run)]
    return _with_operators(graph, wiring, runs, is_judging=True)


def _activations(run: _Run) -> list[str]:
    return [each.activation for each in (run.before, run.behind) if each is not None]


def _with_operators(graph: Graph, wiring: _Wiring, runs: list[_Run], is_judging: bool = False) -> Graph:
    nodes = list(graph["nodes"])
    replacements: dict[int, Replacement | None] = {}
    for run in runs:
        end = run.behind.end
        nodes[end] = {**nodes[end], "inputs": _inputs(wiring, run)}
        attributes = {**_attributes(wiring, run), "is_judging": str(int(is_judging))}
        replacements[end] = functools.partial(_operator, operator=_name(run), attributes=attributes)
        # Its output is in plain order.
        replacements.update(dict.fromkeys(set(wiring.copies(end)) - wiring.outputs, input_itself))
    return with_replaced({**graph, "nodes": nodes}, replacements) if runs else graph


def inside_runs(graph: Graph, shapes: Shapes) -> set[int]:
    """Return the positions of the nodes behind which a cut would go through a run, or change which layers are one."""
    wiring, inside = _wiring(graph), set()
    kinds = (_candidates(graph, shapes, wiring, is_judging) for is_judging in (False, True))
    for run in dict.fromkeys(itertools.chain(*kinds)):
        first, *_ = _with_weights(run)
        within = [run.behind.end]
        for place in within:
            within += [] if place == first else [source for source, *_ in graph["nodes"][place]["inputs"]]
        inside.update(within[1:])
        before, behind = _reached(wiring, run)
        # Of a part, what is behind counts as such a norm, and what is before does not.
        near = behind if _stands_alone(wiring, run) else {run.behind.end, *before}
        inside.update(*([place, *wiring.copies(place)] for place in near))
    return inside


def _wiring(graph: Graph) -> _Wiring:
    return _Wiring(graph["nodes"], users_of(graph), outputs_of(graph))


def _runs(graph: Graph, shapes: Shapes, wiring: _Wiring, is_judging: bool = False) -> list[_Run]:
    """Return the runs of a graph that become operators of ours."""
    return [run for run in _candidates(graph, shapes, wiring, is_judging) if _stands_alone(wiring, run)]


def _candidates(graph: Graph, shapes: Shapes, wiring: _Wiring, is_judging: bool) -> list[_Run]:
    """Return the runs of a graph, whatever is around them; none without the part in C.

    Norms by running statistics alone, as `--freeze` makes them, are for a graph that `is_judging` as all others.
    """
    if native.OPERATORS is None:
        return []
    wide = sorted(set(range(len(graph["nodes"]))) - in_bfloat16(graph))
    norms = [_norm(wiring, place) for place in wide if _is_norm(graph, shapes, place, is_judging)]
    by_place, by_end = {each.place: each for each in norms}, {each.end: each for each in norms}
    runs = []
    for place in wide:
        behind = by_place.get(wiring.only_user(place) or 0)
        if behind is not None and is_depthwise(graph, shapes, place):
            source = wiring.source(graph["nodes"][place]["inputs"][0])[0]
            before = by_end.get(source) if wiring.only_user(source) == place else None
            runs.append(_Run(before, place, behind))
    of_runs = {norm for run in runs for norm in (run.before, run.behind)}
    alone = [each for each in norms if each not in of_runs and each.activation in NOT_OF_ONEDNN]
    return [*runs, *(_Run(None, None, each) for each in alone)]


def _with_weights(run: _Run) -> list[int]:
    """Return the nodes of a run that have weights, first to last."""
    nodes = (run.before and run.before.place, run.convolution, run.behind.place)
    return [place for place in nodes if place is not None]


def _is_norm(graph: Graph, shapes: Shapes, place: int, is_judging: bool) -> bool:
    """Return whether this is a BatchNorm of the channels of pictures, in training by the statistics of the batch."""
    of_node = graph["nodes"][place].get("attrs", {})
    is_for_all = is_judging or of_node.get("use_global_stats", "False") == "False"
    return is_for_all and norm_relus.is_norm(graph, shapes, place, ("BatchNorm", norm_relus.JOINED))


def _norm(wiring: _Wiring, place: int) -> _Norm:
    is_joined = wiring.nodes[place]["op"] == norm_relus.JOINED
    users = wiring.users_behind_copies(place)
    user = None if wiring.is_output(place) or not users else wiring.nodes[users[0]]
    if user is not None and len(users) == 1:
        if is_joined and user["op"] == "_minimum_scalar" and float(user["attrs"]["scalar"]) == 6:
            return _Norm(place, RELU6, users[0])
        if not is_joined and user["op"] == "Activation" and user["attrs"].get("act_type") == "relu":
            return _Norm(place, RELU, users[0])
    gate = hard_sigmoids.hard_swish(wiring.nodes, users, wiring.only_user)
    if not is_joined and gate is not None and not wiring.is_output(place):
        return _Norm(place, HARD_SWISH, gate)
    return _Norm(place, RELU if is_joined else IDENTITY, place)


def is_depthwise(graph: Graph, shapes: Shapes, place: int) -> bool:
    """Return whether this is a convolution of each channel by itself, of sizes for which there are kernels."""
    node = graph["nodes"][place]
    if node["op"] != "Convolution":
        return False
    attributes, data = node["attrs"], shape_of(graph, shapes, *node["inputs"][0][:2])
    kernel, stride, pad, dilate = (
        numbers(attributes, name) for name in ("kernel", "stride", "pad", "dilate")
    )
    return (
        len(data) == norm_relus.OF_PICTURES
        and data[1] == int(attributes["num_filter"]) == int(attributes.get("num_group", 1))
        and len(set(kernel)) == 1
        and kernel[0] in KERNELS
        and (stride or (1, 1)) in [(each, each) for each in STRIDES]
        and len(set(pad or (0, 0))) == 1
        and (pad or (0, 0))[0] < kernel[0] <= min(data[2:]) + 2 * (pad or (0, 0))[0]
        and (dilate or (1, 1)) == (1, 1)
        and attributes.get("no_bias", "False") == "True"
        and attributes.get("layout", "None") in ("None", "NCHW")
        and are_float32(graph["nodes"][node["inputs"][1][0]])
    )


def _stands_alone(wiring: _Wiring, run: _Run) -> bool:
    """Return whether no norm with its ReLU joined gets plain arrays by this run on one side and blocks on the other.

    It has no backward pass for that, or a wrong one (docs/adr/0041). What is outside of the graph, as of one that is a
    part of a net, counts as such a norm.
    """
    near = set().union(*_reached(wiring, run))
    return not any(wiring.nodes[each]["op"] == norm_relus.JOINED or wiring.is_output(each) for each in near)


def _reached(wiring: _Wiring, run: _Run) -> tuple[set[int], set[int]]:
    """Return the nodes before a run, and those behind it, that pass its order on, and the joined norms they reach."""
    first, *_ = _with_weights(run)

    def sources(place: int) -> list[int]:
        entries = wiring.nodes[place]["inputs"]
        return [wiring.source(entry)[0] for entry in (entries[:1] if place == first else entries)]

    def reached(place: int, nexts: Callable[[int], list[int]]) -> set[int]:
        seen = list(dict.fromkeys(nexts(place)))
        for each in seen:
            if wiring.nodes[each]["op"] in PASSING:
                seen += set(nexts(each)).difference(seen)
        return {each for each in seen if wiring.nodes[each]["op"] in (*PASSING, norm_relus.JOINED)}

    return reached(first, sources), reached(run.behind.end, wiring.users_behind_copies)


def _inputs(wiring: _Wiring, run: _Run) -> list[list[int]]:
    """Return the operator's inputs, in the order of those of the nodes it stands for, as a net's inputs keep theirs."""
    (data, *first), *others = [wiring.nodes[place]["inputs"] for place in _with_weights(run)]
    return [wiring.source(data), *first, *(entry for _, *more in others for entry in more)]


def _name(run: _Run) -> str:
    if run.convolution is None:
        return NORM
    return DEPTHWISE_NORM if run.before is None else NORM_DEPTHWISE_NORM


def _attributes(wiring: _Wiring, run: _Run) -> dict[str, str]:
    attributes = {}
    for norm, ending in ((run.before, "_before"), (run.behind, "")):
        if norm is not None:
            of_norm = wiring.nodes[norm.place].get("attrs", {})
            attributes[f"activation{ending}"] = norm.activation
            attributes[f"momentum{ending}"] = of_norm.get("momentum", "0.9")
            attributes.update({f"{name}{ending}": each for name, each in constants_of_norm(of_norm).items()})
    if run.convolution is not None:
        attributes.update(sizes_of_convolution(wiring.nodes[run.convolution]["attrs"]))
    return attributes


def constants_of_norm(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return of a BatchNorm's attributes those that our operators need to compute by running statistics."""
    is_fixed = attributes.get("fix_gamma", "True") == "True"
    return {"epsilon": attributes.get("eps", "0.001"), "is_fixed": str(int(is_fixed))}


def sizes_of_convolution(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return the sizes of a depthwise convolution of squares as our operators take them."""
    defaults = (("kernel", ()), ("stride", (1,)), ("pad", (0,)))
    return {name: str((numbers(attributes, name) or default)[0]) for name, default in defaults}


def _operator(
    node: Mapping[str, Any], inputs: Inputs, add: AddNode, operator: str, attributes: Mapping[str, str]
) -> int:
    name, (data, *others) = node["name"], inputs
    entries = [[add(plain_copy(f"{name}_plain", data)), 0, 0]]
    for place, entry in enumerate(others, 1):
        if place not in MOVED[operator]:
            entry = [add(gradient_copy(f"{name}_input{place}", entry)), 0, 0]
        entries.append(entry)
    return add({"op": operator, "name": name, "attrs": dict(attributes), "inputs": entries})
