"""Layers of operators that ran: MXNet's profiler says which operator ran when, but not whose it was.

Owns the way back from operators to the nodes of a compiled graph. Operators of one device run one after the other, each
once all before it in the graph are done. Which of several branches comes first depends on memory that a static graph
shares between them: both orders are tried, and the one in which operators of more work took longer is taken. Operators
that are not the graph's, as those of a loss or of an optimizer, have no node. Pure.
"""

from __future__ import annotations

import math
import statistics
from typing import Mapping, Sequence

from mxtrain.models.rewrites.graph_rewrites import CASTS, Graph

BACKWARD = "_backward_"
TRAINED_SUFFIXES = ("_fwd", "_output")  # that Gluon adds to a layer's name for its operator


def nodes_that_ran(
    operators: Sequence[str], micros: Sequence[float], graph: Graph, work: Mapping[str, float]
) -> list[int | None]:
    """Return the position in `graph` of the node of each operator, in the order in which they ran on a device.

    `micros` are the times that they took, `work` the operations of nodes by name, as far as they are known.
    """
    costs = [work.get(node["name"], 0.0) for node in graph["nodes"]]
    tried = [_in_order(operators, graph, is_first_ready_first) for is_first_ready_first in (False, True)]

    def fit(nodes: Sequence[int | None]) -> tuple[int, float]:
        return nodes.count(None), _misfit(
            operators, micros, [costs[n] if n is not None else 0.0 for n in nodes]
        )

    return min(tried, key=fit)


def _misfit(operators: Sequence[str], micros: Sequence[float], costs: Sequence[float]) -> float:
    """Return how far times are from going with costs, operator by operator, where there are costs."""
    speeds: dict[str, list[float]] = {}
    for name, time, cost in zip(operators, micros, costs):
        if time and cost:
            speeds.setdefault(name, []).append(math.log(time / cost))
    return sum(statistics.pvariance(each) * len(each) for each in speeds.values())


def _in_order(operators: Sequence[str], graph: Graph, is_first_ready_first: bool) -> list[int | None]:
    """Return the nodes if of several that may run that one does which could first, or else the graph's first one."""
    named = {place: node["op"] for place, node in enumerate(graph["nodes"]) if node["op"] != "null"}
    before = {
        place: {source for source, *_ in graph["nodes"][place]["inputs"] if source in named}
        for place in named
    }
    known = set(operators)
    backward = {place: BACKWARD + name.lstrip("_") for place, name in named.items()}
    backward = {place: name for place, name in backward.items() if name in known}
    # MXNet queues a backward pass in the opposite order of the nodes.
    passes = (
        _Pass(named, before, 1, is_first_ready_first),
        _Pass(backward, _after(before, set(backward)), -1, is_first_ready_first),
    )
    for event, name in enumerate(operators):
        any(each.take(name, event) for each in passes)
    node_of_event = {event: place for each in passes for event, place in each.node_of_event.items()}
    return [node_of_event.get(event) for event in range(len(operators))]


def layer_names(graph: Graph, parameters: Mapping[str, str]) -> dict[int, str]:
    """Return a name for each node that is an operator: that of its parameters' layer, where it has some.

    `parameters` are the names in checkpoints, such as `features.0.weight`, by those in the graph.
    """
    found = {}
    for place, node in enumerate(graph["nodes"]):
        if node["op"] == "null":
            continue
        own = (parameters.get(_variable(graph, source), "") for source, *_ in node["inputs"])
        name = node["name"]
        for suffix in TRAINED_SUFFIXES:
            name = name[: -len(suffix)] if name.endswith(suffix) else name
        found[place] = next((each.rpartition(".")[0] for each in own if "." in each), name)
    return found


def _variable(graph: Graph, place: int) -> str:
    """Return the name of the variable at `place`, or of the one that a cast there takes; of others an empty text."""
    while graph["nodes"][place]["op"] in CASTS:
        place = graph["nodes"][place]["inputs"][0][0]
    node = graph["nodes"][place]
    return str(node["name"]) if node["op"] == "null" else ""


def _after(before: Mapping[int, set[int]], kept: set[int]) -> dict[int, set[int]]:
    """Return which nodes' backward passes come before that of each node: its users', or those of theirs."""
    users: dict[int, set[int]] = {place: set() for place in before}
    for place, sources in before.items():
        for source in sources:
            users[source].add(place)
    nearest: dict[int, set[int]] = {}
    for place in sorted(users, reverse=True):
        nearest[place] = {
            each for user in users[place] for each in ({user} if user in kept else nearest[user])
        }
    return {place: nearest[place] for place in kept}


class _Pass:
    """A forward or backward pass over a graph, again and again, as its operators run: a node for each event."""

    def __init__(
        self,
        names: Mapping[int, str],
        before: Mapping[int, set[int]],
        direction: int,
        is_first_ready_first: bool,
    ):
        self.node_of_event: dict[int, int] = {}  # by the number of the event
        self._names, self._before, self._direction = names, before, direction
        self._is_first_ready_first = is_first_ready_first
        self._first_names = {names[place] for place, sources in before.items() if not sources}
        self._begin()

    def take(self, name: str, event: int) -> bool:
        """Find the node that ran under this name; return whether one of that name can be next."""
        place = self._next(name)
        if place is None:
            place = self._next_but_for_exchanges(name)
        if place is None and name in self._first_names and 2 * len(self._waiting) < len(self._names):
            self._begin()  # what is left of the last pass did not run
            place = self._next(name)
        if place is None:
            return False
        self._note(place, event)
        if not self._ready and not self._waiting:
            self._begin()
        return True

    def _next(self, name: str) -> int | None:
        those = [place for place in self._ready if self._names[place] == name]
        since = self._ready if self._is_first_ready_first else dict.fromkeys(those, 0)
        return min(those, key=lambda place: (since[place], self._direction * place), default=None)

    def _next_but_for_exchanges(self, name: str) -> int | None:
        """Return a node of that name that waits for others for which nodes of their names were taken too early.

        Casts of weights, for instance, can all run at once, and so were taken where one of the data ran.
        """
        those = (place for place in self._waiting if self._names[place] == name)
        for place in sorted(those, key=lambda each: self._direction * each):
            missing = self._waiting[place]
            exchanged = {each: self._taken_too_early(each) for each in missing if each in self._ready}
            if len(exchanged) == len(missing) and None not in exchanged.values():
                for right, wrong in exchanged.items():
                    if wrong in self._events:
                        self._exchange(wrong, right)
                return place if place in self._ready else None
        return None

    def _taken_too_early(self, place: int) -> int | None:
        """Return the last node that was taken under the name of `place` and is not needed yet."""
        needed = {source for taken in self._events for source in self._before[taken]}
        those = [
            each for each in self._events if self._names[each] == self._names[place] and each not in needed
        ]
        return max(those, key=lambda each: self._events[each], default=None)

    def _exchange(self, wrong: int | None, right: int) -> None:
        """Give the event of the node `wrong` to the node `right`."""
        assert wrong is not None
        event = self._events.pop(wrong)
        self._ready[wrong] = event
        for other in self._names:
            if wrong in self._before[other] and other not in self._events:
                self._ready.pop(other, None)
                self._waiting.setdefault(other, set()).add(wrong)
        self._note(right, event)

    def _note(self, place: int, event: int) -> None:
        """Give an event to the node at `place`: those that waited for nothing else are ready then."""
        del self._ready[place]
        self._events[place], self.node_of_event[event] = event, place
        for other, sources in list(self._waiting.items()):
            sources.discard(place)
            if not sources:
                del self._waiting[other]
                self._ready[other] = event

    def _begin(self) -> None:
        self._events: dict[int, int] = {}  # of this pass, by node
        self._waiting = {place: set(sources) for place, sources in self._before.items() if sources}
        self._ready = {place: -1 for place, sources in self._before.items() if not sources}
