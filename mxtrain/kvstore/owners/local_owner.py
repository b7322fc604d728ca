"""The owner of all parameters in the one process that trains them: what a step needs of them is lent to it.

Owns weights, the sums of a step and the optimizer's state. The arithmetic is that of gluon's Trainer, to the bit.
"""

from __future__ import annotations

import math
from typing import Mapping, Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.kvstore.owners.owner import GradientSum, StepSums
from mxtrain.optim import optimizer_state
from mxtrain.optim.sums.exact_gradients import memory
from mxtrain.optim.sums.grid import num_blocks, write_maxima
from mxtrain.optim.update import Update, unscale_and_clip
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray, Optimizer, Parameter


class Arrived:
    """Weights that are there as soon as they are asked for."""

    def wait(self) -> None:
        """Do nothing."""


class LocalOwner:
    """The `Owners` of these parameters, moved by `optimizer`."""

    def __init__(self, parameters: Sequence[Parameter], optimizer: Optimizer):
        self._shapes = [tuple(each.shape) for each in parameters]
        self._trained = [index for index, each in enumerate(parameters) if each.grad_req != "null"]
        self._optimizer = optimizer
        optimizer.param_dict = dict(enumerate(parameters))  # for factors of rates and decay
        self._updater = mx.optimizer.get_updater(optimizer)
        self._weights: dict[int, NDArray] = {}
        self._sums: dict[int, NDArray] = {}

    def put(self, index: int, weights: Array) -> None:
        self._weights[index] = mx.nd.array(weights.reshape(self._shapes[index]))

    def pull(self, indices: Sequence[int], into: Sequence[Array]) -> Arrived:
        for index, array in zip(indices, into):
            array[:] = memory(self._weights[index])
        return Arrived()

    def push(self, index: int, gradient: GradientSum) -> None:
        self._sums[index] = mx.nd.array(gradient.values.reshape(self._shapes[index]))

    def finish(self) -> StepSums:
        sums = [self._sums[index].reshape((-1,)) for index in self._trained]
        squares = mx.nd.concat(*(mx.nd.dot(each, each) for each in sums), dim=0).asnumpy()
        maxima = [np.empty(num_blocks(math.prod(self._shapes[index])), np.float32) for index in self._trained]
        for index, of_blocks in zip(self._trained, maxima):
            write_maxima(memory(self._sums[index]), of_blocks)
        return StepSums(squares, np.concatenate(maxima))

    def apply(self, update: Update) -> None:
        self._optimizer.set_learning_rate(update.rate)
        self._optimizer.rescale_grad = update.factor
        for index in self._trained:
            gradient = self._sums.pop(index)
            unscale_and_clip([gradient], update)
            self._updater(index, gradient, self._weights[index])
            self._weights[index].wait_to_read()

    def drop(self) -> None:
        self._sums.clear()

    def read_state(self, index: int) -> list[Array]:
        arrays = optimizer_state.state_arrays(self._updater.states.get(index))
        return [each.asnumpy() for each in arrays]

    def write_state(self, index: int, arrays: Sequence[Array]) -> None:
        state = self._optimizer.create_state_multi_precision(index, self._weights[index])
        for place, array in zip(optimizer_state.state_arrays(state), arrays):
            place[:] = array.reshape(place.shape)
        self._updater.states[index] = state
        self._updater.states_synced[index] = True

    def update_counts(self) -> Mapping[str, int]:
        self._optimizer._set_current_context(0)
        return {str(index): count for index, count in self._optimizer._index_update_count.items()}

    def set_update_counts(self, counts: Mapping[str, int]) -> None:
        restored = {int(index): count for index, count in counts.items()}
        self._optimizer._all_index_update_counts[0] = restored
        self._optimizer.num_update = max(restored.values(), default=0)
