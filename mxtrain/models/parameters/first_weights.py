"""First weights of a net that holds none: drawn one parameter at a time, the numbers that the whole net would have.

Gluon draws a parameter when its shape is known and puts it into the net. Here it is noted in which order, and what is
drawn later goes to whoever takes it.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Sequence

from mxtrain.models.parameters import fast_init, initializers
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, Device, NDArray, Parameter


class FirstWeights:
    """The first weights of a net, as `--init` says by `text`, from `seed`.

    Its shapes have to become known inside `noted`.
    """

    def __init__(self, net: Block, text: str, seed: int, device: Device):
        self._net, self._text, self._seed, self._device = net, text, seed, device
        self._order: list[tuple[Parameter, Any]] = []  # each with what Gluon would draw it by

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """A block in which parameters get no values when Gluon would draw them."""
        parameters = list(self._net.collect_params().values())
        for parameter in parameters:
            parameter._finish_deferred_init = lambda parameter=parameter: self._note(parameter)
        try:
            initializers.initialize(self._net, self._text, [self._device], self._seed)
            yield
        finally:
            for parameter in parameters:
                del vars(parameter)["_finish_deferred_init"]

    def _note(self, parameter: Parameter) -> None:
        if parameter._deferred_init:
            self._order.append((parameter, parameter._deferred_init))
            parameter._deferred_init = ()

    def fill(self, parameters: Sequence[Parameter]) -> None:
        """Give these, which are not drawn at random, their values in the net; after `drawn`."""
        wanted = {each.name for each in parameters}
        for parameter, drawing in self._order:
            if parameter.name in wanted:
                parameter._deferred_init = drawing
                parameter._finish_deferred_init()

    def drawn(self) -> Iterator[tuple[Parameter, NDArray]]:
        """Yield each parameter with its weights, which nobody else holds."""
        taken: list[NDArray] = []
        with fast_init.in_less_time(self._net, self._text, self._seed):
            mx.random.seed(self._seed)
            for parameter, drawing in self._order:
                parameter._deferred_init = drawing
                parameter._init_impl = lambda data, contexts: taken.append(data)
                try:
                    parameter._finish_deferred_init()
                finally:
                    del vars(parameter)["_init_impl"]
                yield parameter, taken.pop()
