"""A net that is compiled several times: to train by one graph, to judge by another, and perhaps to answer by a third.

Owns which of them computes a call. What they are made of is `rewrites/graph_rewrites.py`'s.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from mxtrain.models import fallbacks, mxnet_errors
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, Device, NDArray, Parameter, Symbol

InputShapes = Mapping[str, Sequence[int]]
# What a net is computed for: steps, answers by running statistics, and those whose gradients are asked for.
TRAINING, JUDGING, RECORDED = "training", "judging", "recorded"


def purpose_of_now() -> str:
    """Return what a net that is called now is computed for."""
    if mx.autograd.is_training():
        return TRAINING
    return RECORDED if mx.autograd.is_recording() else JUDGING


def _flags_for_inference(flags: Mapping[str, Any], symbol: Symbol) -> dict[str, Any]:
    """Return the flags to compile a Symbol with that does not train: no static shapes where it has MXNet's LSTM.

    One that writes into a static graph's memory has other last bits by where that lies, which is somewhere else in each
    process. Training has not, and is half as fast again with static shapes.
    """
    has_rnn = '"op": "RNN"' in symbol.tojson()
    is_moved = flags.get("static_shape") and has_rnn
    return {**flags, "static_shape": False} if is_moved else dict(flags)


class IfComputable:
    """A call of what answers by a graph of ours; None where that cannot be computed, which a line says.

    The first one is waited for, as oneDNN says only then what it cannot compute.
    """

    def __init__(self) -> None:
        self._is_tried = self._has_failed = False

    def __call__(self, answer: Callable[..., Any], *arguments: Any) -> Any:
        if self._has_failed:
            return None
        if self._is_tried:
            return answer(*arguments)
        self._is_tried = True
        try:
            found = answer(*arguments)
            mx.nd.waitall()
            return found
        except mx.base.MXNetError as error:
            mxnet_errors.forget()
            self._has_failed = True
            what = "the graph that the net answers by cannot be computed"
            fallbacks.report(what, error, fallbacks.ANSWERS_AS_IT_IS)
            return None


class AnsweringGraph:
    """A net's graph compiled once more, to answer by while its parameters stand still; called with data alone.

    Their arrays are looked up by the first call on a device (for each call, Gluon takes 0.2 to 0.3 ms of Python for the
    261 of a mobilenetv2), which also computes what `once` makes of them alone. What is on another device is copied.

    Of a graph that cannot be computed it gives None.
    """

    def __init__(
        self,
        symbol: Symbol,
        once: Symbol | None,
        parameters: Mapping[str, Parameter],
        data: Sequence[str],
        flags: Mapping[str, Any],
    ):
        self._names, self._once, self._parameters = symbol.list_inputs(), once, parameters
        # Which of the graph's inputs is which of the data that it is called with.
        self._data = {place: data.index(name) for place, name in enumerate(self._names) if name in data}
        self._standing: dict[Any, list[NDArray | None]] = {}  # the graph's inputs on each device
        self._if_computable = IfComputable()
        positions = {"data_indices": [*self._data]}
        positions["param_indices"] = [each for each in range(len(self._names)) if each not in self._data]
        self._compiled = mx.nd.CachedOp(
            symbol, [*positions.items(), *_flags_for_inference(flags, symbol).items()]
        )

    def __call__(self, *data: Any, **keywords: Any) -> Any:
        return self._if_computable(self._answer, data, keywords)

    def _answer(self, data: Sequence[NDArray], keywords: Mapping[str, Any]) -> Any:
        device = data[0].context
        if device not in self._standing:
            self._standing[device] = self._inputs(device)
        inputs = self._standing[device].copy()
        for place, number in self._data.items():
            inputs[place] = data[number]
        return self._compiled(*inputs, **keywords)

    def _inputs(self, device: Device) -> list[NDArray | None]:
        """Return the inputs of the graph but data, which each call puts in."""
        made: dict[str, NDArray] = {}
        if self._once is not None:
            found = mx.nd.CachedOp(self._once)(
                *(self._array(name, device) for name in self._once.list_inputs())
            )
            made = dict(zip(self._once.list_outputs(), found if isinstance(found, list) else [found]))
        return [
            None if place in self._data else made[name] if name in made else self._array(name, device)
            for place, name in enumerate(self._names)
        ]

    def _array(self, name: str, device: Device) -> NDArray:
        parameter = self._parameters[name]
        is_here = device in parameter.list_ctx()
        return parameter.data(device) if is_here else parameter.list_data()[0].as_in_context(device)

    def _register_op_hook(self, *hook: Any) -> None:
        self._compiled._register_op_hook(*hook)


class OperatorForAnswers:
    """A compiled block that answers by another graph; called as Gluon calls one that is compiled once, but with data
    alone. `give_back` ends that.
    """

    def __init__(self, block: Block, answers: AnsweringGraph):
        self._block, self._answers = block, answers
        self._otherwise, self._all_inputs = block._cached_op, block._cached_op_args
        block._cached_op_args = [pair for pair in self._all_inputs if pair[0]]

    def give_back(self) -> None:
        """Have the block compute everything as it did before, if it still answers by this."""
        if self._block._cached_op is self:
            self._block._cached_op, self._block._cached_op_args = self._otherwise, self._all_inputs

    def __call__(self, *data: Any, **keywords: Any) -> Any:
        found = self._answers(*data, **keywords) if purpose_of_now() == JUDGING else None
        if found is not None:
            return found
        rest = iter(data)
        inputs = (next(rest) if is_data else parameter.data() for is_data, parameter in self._all_inputs)
        return self._otherwise(*inputs, **keywords)

    def _register_op_hook(self, *hook: Any) -> None:
        self._otherwise._register_op_hook(*hook)
        self._answers._register_op_hook(*hook)


class OperatorByPurpose:
    """A net compiled for each purpose, called as Gluon calls one that is compiled once.

    For training it is compiled for inputs of certain shapes; others, as those of an epoch's last, short step, have it
    compiled anew. All else is compiled once it is asked for, whatever the sizes of inputs then.
    """

    def __init__(
        self, block: Block, rewrite: Callable[[str, Symbol, InputShapes], Symbol], shapes: InputShapes
    ):
        _, self._output = block._cached_graph
        self.symbol = self._output  # what it trains by
        self._positions = _positions(block)
        self._flags = dict(block._flags)
        self._rewrite, self._shapes, self._as_it_is = rewrite, shapes, block._cached_op
        self._names = self._output.list_inputs()
        self._hooks: list[Any] = []
        self._compiled: dict[str, Any] = {}
        self._compile_for_training(shapes)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        purpose = purpose_of_now()
        if purpose == TRAINING:
            shapes = {self._names[place]: args[place].shape for place in self._positions["data_indices"]}
            if shapes != self._shapes:
                self._compile_for_training(shapes)
        elif purpose not in self._compiled:
            symbol = self._rewrite(purpose, self._output, self._shapes)
            self._compile(purpose, symbol, _flags_for_inference(self._flags, symbol))
        return self._compiled[purpose](*args, **keywords)

    def _compile_for_training(self, shapes: InputShapes) -> None:
        self._shapes, self.symbol = shapes, self._rewrite(TRAINING, self._output, shapes)
        self._compile(TRAINING, self.symbol, self._flags)

    def _compile(self, purpose: str, symbol: Symbol, flags: Mapping[str, Any]) -> None:
        is_own = symbol is self._output and flags == self._flags
        flags_and_places = [*self._positions.items(), *flags.items()]
        self._compiled[purpose] = self._as_it_is if is_own else mx.nd.CachedOp(symbol, flags_and_places)
        for hook in () if is_own else self._hooks:
            self._compiled[purpose]._register_op_hook(*hook)

    def _register_op_hook(self, *hook: Any) -> None:
        self._hooks.append(hook)
        for each in {self._as_it_is, *self._compiled.values()}:
            each._register_op_hook(*hook)


def _positions(block: Block) -> dict[str, list[int]]:
    """Return which inputs of the block's graph are data and which are parameters, as MXNet names them."""
    are_data = [is_data for is_data, _ in block._cached_op_args]
    return {
        attribute: [place for place, is_data in enumerate(are_data) if is_data == wanted]
        for attribute, wanted in (("data_indices", True), ("param_indices", False))
    }
