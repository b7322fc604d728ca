"""Taps at the outputs of a net's blocks: each adds zeros, whose gradient is that of the output, or a direction.

Used while a net runs imperatively, in which Gluon calls each block's own `forward`.
"""

from __future__ import annotations

import dataclasses
from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterator

import numpy as np

from mxtrain.runtime import mx
from mxtrain.train.telemetry.nonfinite import blocks

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block


@dataclasses.dataclass
class Tap:
    """One array that a call of a block has returned; gradients are known after a backward pass."""

    name: str  # of the block, as its parameters are named in a checkpoint
    class_name: str  # of the block
    is_net: bool  # the output of the whole net
    inputs: set[int]  # what the block got: places of the taps that it came from
    value: Any
    zeros: Any
    gradient: Any = None


class Taps:
    """A block in which the outputs of a net's innermost blocks, and of the net itself, are tapped."""

    def __init__(self, net: Block):
        self._net = net
        self._calls: list[Tap] = []
        self._positions: dict[int, int] = {}  # of arrays that were returned, by their identity
        self._kept: list[Any] = []  # so that no identity is used again
        self._next = 0
        self._moved: tuple[int, Any] | None = None
        self._is_recorded = False

    def __enter__(self) -> Taps:
        for name, block in blocks(self._net, ""):
            if not block._children or block is self._net:
                self._wrap(name, block)
        return self

    def __exit__(
        self, error_type: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _, block in blocks(self._net, ""):
            block.__dict__.pop("forward", None)

    def finish(self) -> list[Tap]:
        """Return the taps of the pass that was recorded, in the order of the calls, with their gradients."""
        self._is_recorded = True
        self._next = 0
        for tap in self._calls:
            tap.gradient = tap.zeros.grad.asnumpy()
            tap.zeros = None
        return self._calls

    def move(self, place: int, by: Any) -> None:
        """Add `by` to a tapped array in the passes that follow; None: nothing."""
        self._moved, self._next = (None if by is None else (place, by)), 0

    def _wrap(self, name: str, block: Block) -> None:
        plain = block.forward

        def forward(*inputs: Any) -> Any:
            origins = {self._positions[id(each)] for each in _arrays(inputs) if id(each) in self._positions}
            return self._tapped(name, block, origins, plain(*inputs))

        object.__setattr__(block, "forward", forward)

    def _tapped(self, name: str, block: Block, origins: set[int], output: Any) -> Any:
        if isinstance(output, (list, tuple)):
            return type(output)([self._tapped(name, block, origins, each) for each in output])
        if not isinstance(output, mx.nd.NDArray) or np.dtype(output.dtype).kind != "f":
            return output
        place, self._next = self._next, self._next + 1
        if self._is_recorded:
            if self._moved is None or self._moved[0] != place:
                return output
            return output + mx.nd.array(self._moved[1], ctx=output.context, dtype=output.dtype)
        zeros = mx.nd.zeros_like(output)
        zeros.attach_grad()
        tapped = output + zeros
        self._positions[id(tapped)] = place
        self._kept.append(tapped)
        class_name, value = type(block).__name__, output.asnumpy()
        self._calls.append(Tap(name, class_name, block is self._net, origins, value, zeros))
        return tapped


def _arrays(value: Any) -> Iterator[Any]:
    """Yield the arrays inside a block's input: one, or tuples of those."""
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _arrays(part)
    elif isinstance(value, mx.nd.NDArray):
        yield value
