"""MXNet's updater, which moves dense weights on CPUs by kernels of our own: for SGD, Adam and AdamW, to the same bits.

Owns which arrays these are for, and what kernels are told. They read and write each number once, in as many threads as
MXNet computes with, and are operations of its engine as its own are (docs/adr/0068). Operators of MXNet's read their
numbers from decimals, in two ways, of which one takes some for a neighbour: so kernels are told what operators read.
"""

from __future__ import annotations

import ctypes
import functools
import math
from typing import Any, NamedTuple, Sequence

from mxtrain import native
from mxtrain.optim import extra_optimizers
from mxtrain.optim.optimizer_state import state_arrays
from mxtrain.runtime import engine, mx, own_operators
from mxtrain.runtime.memory import address, is_in_memory
from mxtrain.runtime.types import NDArray, Optimizer

SGD, SGD_WITH_MOMENTUM, ADAM = range(3)


class Update(ctypes.Structure):
    """The description of an update for a kernel: see native/operators/weights/update.h."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("weight", "first", "second", "gradient")),
        ("count", ctypes.c_size_t),
        ("rule", ctypes.c_int),
        *((name, ctypes.c_float) for name in ("rate", "decay", "shrink", "rescale", "clip")),
        *((name, ctypes.c_float) for name in ("beta1", "beta2", "epsilon")),
    ]


class Updater(mx.optimizer.Updater):
    """The updater of an optimizer: `updater(index, gradient, weight)`, or with a list of each."""

    def __init__(self, optimizer: Optimizer):
        super().__init__(optimizer)
        self._operands: dict[Any, Operands] = {}  # by index, as they were found to be for a kernel

    def __call__(self, index: Any, grad: Any, weight: Any) -> None:
        is_one = not isinstance(index, (list, tuple))
        indices, gradients, weights = ([index], [grad], [weight]) if is_one else (index, grad, weight)
        describe = None if native.OPERATORS is None else RULES.get(type(self.optimizer))
        if describe is None or not weights or not all(map(self._is_for_kernel, indices, gradients, weights)):
            super().__call__(index, grad, weight)
            return
        optimizer = self.optimizer
        optimizer._set_current_context(weights[0].context.device_id)
        optimizer._update_count(indices)
        rates, decays = optimizer._get_lrs(indices), optimizer._get_wds(indices)
        shared = {"rescale": read_alone(optimizer.rescale_grad), "clip": _clip(optimizer), "shrink": 1.0}
        for number, rate, decay in zip(indices, rates, decays):
            _push(Update(**{**shared, **describe(optimizer, number, rate, decay)}), self._operands[number])

    def _is_for_kernel(self, index: Any, gradient: NDArray, weight: NDArray) -> bool:
        """Return whether a kernel moves these weights, which then have `_operands`; they have a state in any case."""
        if index not in self.states:
            self.optimizer._set_current_context(weight.context.device_id)
            self.states[index] = self.optimizer.create_state_multi_precision(index, weight)
            self.states_synced[index] = True
        state, known = self.states[index], self._operands.get(index)
        if (
            known is not None
            and known.gradient is gradient
            and known.weight is weight
            and known.state is state
        ):
            return True
        is_for_kernel = self.states_synced[index] and _are_plain([weight, gradient, *state_arrays(state)])
        if is_for_kernel:
            written = weight, *state_arrays(state)
            self._operands[index] = Operands(
                gradient,
                weight,
                state,
                written,
                engine.handles([gradient]),
                engine.handles(written),
                weight.size,
            )
        return is_for_kernel


class Operands(NamedTuple):
    """The arrays of an update, those that it writes, and what its engine knows them by."""

    gradient: NDArray
    weight: NDArray
    state: Any
    written: Sequence[NDArray]
    of_read: Any
    of_written: Any
    size: int


def _are_plain(arrays: Sequence[NDArray]) -> bool:
    """Return whether arrays are float32, dense, of one shape and on a CPU."""
    return all(is_in_memory(each) and each.shape == arrays[0].shape for each in arrays)


def _push(update: Update, operands: Operands) -> None:
    """Have the engine make an update, of which all but the arrays is described."""
    update.gradient, update.count = address(operands.gradient), operands.size
    update.weight, update.first, update.second, *_ = (*map(address, operands.written), None, None)
    function, new = _kernel()
    engine.push(function, new(ctypes.byref(update)), native.FREE, operands.of_read, operands.of_written)


@functools.lru_cache(maxsize=None)
def _kernel() -> tuple[Any, Any]:
    """Return the address of what makes an update, and what copies its description for it."""
    library = own_operators.library()
    new = library.mxtrain_new_update
    new.restype = ctypes.c_void_p
    return ctypes.cast(library.mxtrain_update, ctypes.c_void_p).value, new


def _sgd(optimizer: Any, index: Any, rate: float, decay: float) -> dict[str, Any]:
    momentum = optimizer.momentum if optimizer.momentum > 0 else 0.0
    return {
        "rule": SGD_WITH_MOMENTUM if momentum else SGD,
        "rate": read_in_list(rate),
        "decay": read_in_list(decay),
        "beta1": read_alone(momentum),
    }


def _adam(optimizer: Any, index: Any, rate: float, decay: float) -> dict[str, Any]:
    count = optimizer._index_update_count[index]
    rate *= math.sqrt(1.0 - optimizer.beta2**count) / (1.0 - optimizer.beta1**count)
    return {**_means(optimizer, rate, optimizer.epsilon), "decay": read_alone(decay)}


def _adamw(optimizer: Any, index: Any, rate: float, decay: float) -> dict[str, Any]:
    shrink = read_as_factor(1.0 - rate * decay) if decay else 1.0
    return {**_means(optimizer, *optimizer.corrected(index, rate)), "decay": 0.0, "shrink": shrink}


def _means(optimizer: Any, rate: float, epsilon: float) -> dict[str, Any]:
    numbers = {"rate": rate, "beta1": optimizer.beta1, "beta2": optimizer.beta2, "epsilon": epsilon}
    return {"rule": ADAM, **{name: read_alone(number) for name, number in numbers.items()}}


RULES = {mx.optimizer.SGD: _sgd, mx.optimizer.Adam: _adam, extra_optimizers.AdamW: _adamw}


def _clip(optimizer: Any) -> float:
    return read_alone(optimizer.clip_gradient) if optimizer.clip_gradient else -1.0


@functools.lru_cache(maxsize=1024)
def read_alone(number: float) -> float:
    """Return the number that operators read for one among their attributes."""
    read = mx.nd.sgd_update(mx.nd.zeros((1,)), -mx.nd.ones((1,)), lr=1.0, wd=0.0, rescale_grad=number)
    return float(read.asscalar())


@functools.lru_cache(maxsize=1024)
def read_in_list(number: float) -> float:
    """Return the number that operators read for one in a list of an attribute."""
    read, slope = mx.nd.zeros((1,)), -mx.nd.ones((1,))
    mx.nd.multi_sgd_update(read, slope, num_weights=1, lrs=(number,), wds=(0.0,), out=read)
    return float(read.asscalar())


@functools.lru_cache(maxsize=1024)
def read_as_factor(number: float) -> float:
    """Return the number that an array is multiplied by."""
    return float((mx.nd.ones((1,)) * number).asscalar())
