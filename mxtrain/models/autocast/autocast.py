"""Mixed precision on CPUs (`--amp bf16`, `--amp auto`): which operators of a net run in bfloat16, and the casts around
them.

Owns the choice, which is the cheapest by a machine's table of times (`operator_times.py`), casts included: an operator
that is slower in bfloat16, or not by more than its casts cost, stays float32. Weights, gradients and the net's output
are float32. MXNet's own `contrib.amp` casts by lists of names: it takes bfloat16 where that is slower, leaves operators
float32 between two that are not, and breaks nets whose operators its lists forget.
"""

from __future__ import annotations

from typing import Any, Collection, Hashable, Iterable, Iterator, Mapping, NamedTuple, Sequence

from mxtrain.config.autocast_costs import Times
from mxtrain.models.autocast import min_cut
from mxtrain.models.autocast.operator_times import PRODUCTS, Cost, cost_of, num_elements
from mxtrain.models.rewrites.graph_rewrites import (
    Graph,
    Shapes,
    outputs_of,
    shape_of,
)

MARGIN = 1.05  # by which bfloat16 has to win: times differ by some percent from those of the table
FLOAT32, BFLOAT16 = "float32", "bfloat16"
_BFLOAT16, _FLOAT32 = "bfloat16", "float32"  # the two ends of the network that is cut


class Forecast(NamedTuple):
    """The time and work of a choice, by the table: nanoseconds of a step, and FLOPs of forward passes."""

    wide: int = 0  # with everything in float32
    chosen: int = 0
    flops: int = 0
    narrow_flops: int = 0

    @property
    def speed(self) -> float:
        """The speed, float32's being 1; so it is too where nothing was chosen."""
        return self.wide / self.chosen if self.chosen else 1.0

    @property
    def share(self) -> float:
        """The share of the FLOPs that runs in bfloat16."""
        return self.narrow_flops / max(1, self.flops)


class Autocast:
    """A rewrite of graphs (`models/rewrites/graph_rewrites.py`) that keeps what it expects of them, in `forecasts`."""

    def __init__(self, times: Times, least_speed: float = 1.0):
        """A graph that is not expected to be more than `least_speed` times as fast stays as it is."""
        self.times, self.least_speed = times, least_speed
        self.forecasts: list[Forecast] = []

    def __call__(self, graph: Graph, shapes: Shapes) -> Graph:
        costs = [cost_of(graph, shapes, place, self.times) for place in range(len(graph["nodes"]))]
        casts = list(_casts(graph, shapes, self.times))
        chosen = cheapest(costs, casts, _together(graph))
        forecast = _forecast(costs, casts, chosen)
        if forecast.speed <= self.least_speed:
            chosen, forecast = set(), _forecast(costs, casts, ())
        self.forecasts.append(forecast)
        return with_casts(graph, chosen) if chosen else graph

    @property
    def forecast(self) -> Forecast:
        """The expectation of all graphs together."""
        return Forecast(*(sum(numbers) for numbers in zip(Forecast(), *self.forecasts)))


class Cast(NamedTuple):
    """The cast of a value, if not all that use it have the type of what computes it."""

    source: int
    users: tuple[int, ...]
    is_output: bool  # of the net, which is float32
    cost: int


def _casts(graph: Graph, shapes: Shapes, times: Times) -> Iterator[Cast]:
    """Yield the possible casts; those of weights are part of their operator's cost."""
    users: dict[tuple[int, int], list[int]] = {}
    for place, node in enumerate(graph["nodes"]):
        for slot, (source, output, *_) in enumerate(node["inputs"]):
            if slot in bfloat16_inputs(node) and not (slot and node["op"] in PRODUCTS):
                users.setdefault((source, output), []).append(place)
            elif graph["nodes"][source]["op"] != "null":
                users.setdefault((source, output), []).append(-1)
    heads = {(source, output) for source, output, *_ in graph["heads"]}
    for source, output in sorted({*users, *heads}):
        cost = round(2 * times.call + times.cast * num_elements(shape_of(graph, shapes, source, output)))
        using = users.get((source, output), [])
        is_output = (source, output) in heads or -1 in using
        yield Cast(source, tuple(each for each in using if each != -1), is_output, cost)


def bfloat16_inputs(node: Mapping[str, Any]) -> Collection[int]:
    """Return which inputs of an operator that runs in bfloat16 are; of a norm only the first is."""
    return (0,) if node["op"] == "BatchNorm" else range(len(node["inputs"]))


def _together(graph: Graph) -> Iterator[tuple[int, int]]:
    """Yield pairs of operators of which the first runs in bfloat16 only if the second does.

    A cast gives a plain array. Products put it into blocks again, but other operators' kernels for plain arrays are
    slower than the table says: so they run in bfloat16 only after what does, and a norm always runs as what it follows.
    """
    for place, node in enumerate(graph["nodes"]):
        if node["op"] not in PRODUCTS and node["op"] != "null":
            sources = [
                source for slot, (source, *_) in enumerate(node["inputs"]) if slot in bfloat16_inputs(node)
            ]
            yield from ((place, source) for source in sources)
            if node["op"] == "BatchNorm":
                yield from ((source, place) for source in sources)


def cheapest(
    costs: Sequence[Cost], casts: Sequence[Cast], together: Iterable[tuple[int, int]] = ()
) -> set[int]:
    """Return the positions of the operators that run in bfloat16 where all together take least time.

    Of each pair in `together` the first runs in bfloat16 only if the second does.
    """
    edges: list[tuple[Hashable, Hashable, int]] = []

    def name(place: int) -> Hashable:
        return _FLOAT32 if costs[place].bfloat16 is None else place

    for place, cost in enumerate(costs):
        if cost.bfloat16 is not None:
            edges += [(_BFLOAT16, place, cost.float32), (place, _FLOAT32, round(cost.bfloat16 * MARGIN))]
    for number, cast in enumerate(casts):
        source, users = name(cast.source), [name(user) for user in cast.users]
        # One cast, however many need it: to float32 before users in float32, to bfloat16 before the others.
        edges.append((source, ("to float32", number), cast.cost))
        edges += [
            (("to float32", number), user, min_cut.UNLIMITED)
            for user in (*users, *[_FLOAT32] * cast.is_output)
        ]
        edges.append((("to bfloat16", number), source, cast.cost))
        edges += [(user, ("to bfloat16", number), min_cut.UNLIMITED) for user in users]
    edges += [(name(first), name(second), min_cut.UNLIMITED) for first, second in together]
    in_bfloat16 = min_cut.side_of_source(edges, _BFLOAT16, _FLOAT32)
    return {place for place in in_bfloat16 if isinstance(place, int)}


def _forecast(costs: Sequence[Cost], casts: Sequence[Cast], chosen: Collection[int]) -> Forecast:
    time = sum(cost.bfloat16 if place in chosen else cost.float32 for place, cost in enumerate(costs))  # type: ignore[misc]
    for cast in casts:
        types = {user in chosen for user in cast.users} | ({False} if cast.is_output else set())
        time += cast.cost * len(types - {cast.source in chosen})
    return Forecast(
        wide=sum(cost.float32 for cost in costs),
        chosen=time,
        flops=sum(cost.flops for cost in costs),
        narrow_flops=sum(costs[place].flops for place in chosen),
    )


def with_casts(graph: Graph, chosen: Collection[int]) -> Graph:
    """Return the graph with the operators at these positions in bfloat16, and one cast of each value that needs it."""
    nodes: list[dict[str, Any]] = []
    positions: list[int] = []  # of the old nodes
    made: dict[tuple[int, int, str], int] = {}
    heads = outputs_of(graph)

    def entry(source: int, output: int, wanted: str) -> list[int]:
        has = BFLOAT16 if source in chosen and output == 0 else FLOAT32
        if has == wanted:
            return [positions[source], output, 0]
        if (source, output, wanted) not in made:
            old = graph["nodes"][source]["name"]
            name = old if source in heads and wanted == FLOAT32 else f"{old}_{wanted}{output or ''}"
            inputs = [[positions[source], output, 0]]
            nodes.append({"op": "amp_cast", "name": name, "attrs": {"dtype": wanted}, "inputs": inputs})
            made[source, output, wanted] = len(nodes) - 1
        return [made[source, output, wanted], 0, 0]

    for place, node in enumerate(graph["nodes"]):
        slots = bfloat16_inputs(node) if place in chosen else ()
        inputs = [
            entry(source, output, BFLOAT16 if slot in slots else FLOAT32)
            for slot, (source, output, *_) in enumerate(node["inputs"])
        ]
        name = f"{node['name']}_narrow" if place in chosen and place in heads else node["name"]
        nodes.append({**node, "name": name, "inputs": inputs})
        positions.append(len(nodes) - 1)
    return {
        "heads": [entry(source, output, FLOAT32) for source, output, *_ in graph["heads"]],
        "nodes": nodes,
        "arg_nodes": [positions[place] for place in graph["arg_nodes"]],
        "attrs": graph["attrs"],
    }
