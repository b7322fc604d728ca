"""A net that is compiled several times: to train by one graph, and to judge or answer by another.

Owns which of them computes a call. What they are made of is `rewrites/graph_rewrites.py`'s.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, CompiledGraph, Symbol

InputShapes = Mapping[str, Sequence[int]]
Rewriting = Callable[[Symbol, InputShapes], Symbol]  # of a net's Symbol, for inputs of these shapes


def operator_for_inference(block: Block) -> CompiledGraph:
    """Return the block's compiled graph, or it compiled again where static shapes are not for inference."""
    flags = _flags_for_inference(block)
    if flags == dict(block._flags):
        return block._cached_op
    return mx.nd.CachedOp(block._cached_graph[1], [*_positions(block).items(), *flags.items()])


def _flags_for_inference(block: Block) -> dict[str, Any]:
    """Return the flags that a block is compiled with, without static shapes where it has an LSTM.

    One that writes into a static graph's memory has other last bits by where that lies, which is somewhere else in each
    process. Training has not, and is half as fast again with static shapes.
    """
    flags = dict(block._flags)
    has_rnn = '"op": "RNN"' in block._cached_graph[1].tojson()
    return {**flags, "static_shape": False} if flags.get("static_shape") and has_rnn else flags


class OperatorForAnswers:
    """A net compiled once more, to answer by; called as Gluon calls one that is compiled once."""

    def __init__(self, block: Block, symbol: Symbol):
        inputs, own = block._cached_graph[1].list_inputs(), symbol.list_inputs()
        self._places = [inputs.index(name) for name in own]
        positions = {
            attribute: [number for number, place in enumerate(self._places) if place in places]
            for attribute, places in _positions(block).items()
        }
        self._otherwise = block._cached_op
        self._answering = mx.nd.CachedOp(symbol, [*positions.items(), *_flags_for_inference(block).items()])

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if mx.autograd.is_training() or mx.autograd.is_recording():
            return self._otherwise(*args, **keywords)
        return self._answering(*(args[place] for place in self._places), **keywords)

    def _register_op_hook(self, *hook: Any) -> None:
        self._otherwise._register_op_hook(*hook)
        self._answering._register_op_hook(*hook)


class OperatorForTraining:
    """A net compiled twice, called as Gluon calls one that is compiled once.

    For training it is compiled for inputs of certain shapes; others, as those of an epoch's last, short step, have it
    compiled anew.
    """

    def __init__(self, block: Block, rewrite: Rewriting, as_it_is: CompiledGraph, otherwise: CompiledGraph):
        _, self._output = block._cached_graph
        self.symbol = self._output  # what it trains by
        self._positions = _positions(block)
        self._flags = [*self._positions.items(), *block._flags]
        self._rewrite, self._as_it_is, self._otherwise = rewrite, as_it_is, otherwise
        self._names = self._output.list_inputs()
        self._shapes: InputShapes = {}
        self._training: Any = None
        self._hooks: list[Any] = []

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if not mx.autograd.is_training():
            return self._otherwise(*args, **keywords)
        shapes = {self._names[place]: args[place].shape for place in self._positions["data_indices"]}
        if shapes != self._shapes:
            self.is_rewritten_for(shapes)
        return self._training(*args, **keywords)

    def is_rewritten_for(self, shapes: InputShapes) -> bool:
        """Compile the net for training with inputs of these shapes; return whether that differs from its own graph."""
        self.symbol = symbol = self._rewrite(self._output, shapes)
        is_other = symbol is not self._output
        self._shapes = shapes
        self._training = mx.nd.CachedOp(symbol, self._flags) if is_other else self._as_it_is
        for hook in self._hooks if is_other else ():
            self._training._register_op_hook(*hook)
        return is_other

    def _register_op_hook(self, *hook: Any) -> None:
        self._hooks.append(hook)
        for each in {self._training, self._otherwise}:
            each._register_op_hook(*hook)


def _positions(block: Block) -> dict[str, list[int]]:
    """Return which inputs of the block's graph are data and which are parameters, as MXNet names them."""
    are_data = [is_data for is_data, _ in block._cached_op_args]
    return {
        attribute: [place for place, is_data in enumerate(are_data) if is_data == wanted]
        for attribute, wanted in (("data_indices", True), ("param_indices", False))
    }
