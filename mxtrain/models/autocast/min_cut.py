"""The cheapest division of a network's nodes between a source and a sink (Dinic's algorithm).

Capacities are whole numbers, so that every machine finds the same division.
"""

from __future__ import annotations

from collections import deque
from typing import Hashable, Iterable

UNLIMITED = 1 << 60


def side_of_source(
    edges: Iterable[tuple[Hashable, Hashable, int]], source: Hashable, sink: Hashable
) -> set[Hashable]:
    """Return the nodes on the source's side of a cut whose edges have the least capacity, and as few nodes as that
    allows. `edges` are (from, to, capacity).
    """
    left: dict[Hashable, dict[Hashable, int]] = {source: {}, sink: {}}
    for start, end, capacity in edges:
        out = left.setdefault(start, {})
        out[end] = out.get(end, 0) + capacity
        left.setdefault(end, {}).setdefault(start, 0)
    while True:
        levels = _levels(left, source)
        if sink not in levels:
            return set(levels)
        _fill(left, levels, source, sink)


def _levels(left: dict[Hashable, dict[Hashable, int]], source: Hashable) -> dict[Hashable, int]:
    """Return how many edges with capacity left it takes from the source to each node that can be reached."""
    levels, waiting = {source: 0}, deque([source])
    while waiting:
        node = waiting.popleft()
        for other, capacity in left[node].items():
            if capacity and other not in levels:
                levels[other] = levels[node] + 1
                waiting.append(other)
    return levels


def _fill(
    left: dict[Hashable, dict[Hashable, int]], levels: dict[Hashable, int], source: Hashable, sink: Hashable
) -> None:
    """Use up paths from source to sink that go up a level with each edge, until there is none."""
    untried = {node: list(left[node]) for node in levels}
    path = [source]
    while path:
        node = path[-1]
        if node == sink:
            pairs = list(zip(path, path[1:]))
            amount = min(left[start][end] for start, end in pairs)
            for start, end in pairs:
                left[start][end] -= amount
                left[end][start] += amount
            full = next(place for place, (start, end) in enumerate(pairs) if not left[start][end])
            del path[full + 1 :]
            continue
        while untried[node]:
            other = untried[node][-1]
            if left[node][other] and levels.get(other) == levels[node] + 1:
                path.append(other)
                break
            untried[node].pop()
        else:
            path.pop()
            if path:
                untried[path[-1]].pop()
