"""The blocks of a net that its operators come from, noted while the net is traced into a graph.

Owns the marks: each call of a block is numbered, and the operators that it makes carry the number. A block that is
called twice has two calls.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Mapping, NamedTuple

from mxtrain.runtime import mx
from mxtrain.runtime.types import Block

MARK = "__call__"  # an attribute of nodes; MXNet keeps those between underscores as they are


class Call(NamedTuple):
    """A call of a block, within another one's but for the first."""

    parent: int | None
    path: str  # of the block, as in the names of parameters: `features.0`; empty for the net itself
    class_name: str


@contextlib.contextmanager
def recorded(net: Block) -> Iterator[list[Call]]:
    """A block in which the net is called with symbols, once; yields the list of calls, which grows meanwhile."""
    calls: list[Call] = []
    with contextlib.ExitStack() as stack:
        open_calls: list[tuple[int, Any]] = []

        def enter(path: str, block: Block) -> None:
            parent = open_calls[-1][0] if open_calls else None
            scope = mx.AttrScope(**{MARK: str(len(calls))})
            open_calls.append((len(calls), scope))
            calls.append(Call(parent, path, type(block).__name__))
            scope.__enter__()

        def leave(*_: Any) -> None:
            open_calls.pop()[1].__exit__(None, None, None)

        for path, block in _blocks(net):
            before = block.register_forward_pre_hook(lambda block, _, path=path: enter(path, block))
            after = block.register_forward_hook(leave)
            stack.callback(before.detach)
            stack.callback(after.detach)
        try:
            yield calls
        finally:
            while open_calls:  # an error has left them open
                leave()


def call_of(node: Mapping[str, Any]) -> int:
    """Return the number of the call that a node of the traced graph comes from."""
    return int(node.get("attrs", {}).get(MARK, 0))


def _blocks(block: Block, path: str = "") -> Iterator[tuple[str, Block]]:
    """Yield all blocks with their paths, each once."""
    seen: set[int] = set()
    waiting = [(path, block)]
    while waiting:
        path, block = waiting.pop()
        if id(block) in seen:
            continue
        seen.add(id(block))
        yield path, block
        waiting += [(f"{path}.{name}" if path else name, child) for name, child in block._children.items()]
