"""Weights, the sums of a step and the optimizer's state of some parameters, and their arithmetic.

The arithmetic is that of gluon's Trainer, to the bit. Owns no connection: a server calls it for all workers
(`server.py`).
"""

from __future__ import annotations

import threading
from typing import Iterator, Mapping, Sequence

import numpy as np

from mxtrain.config import Optim
from mxtrain.data.fields import Array
from mxtrain.kvstore.owners.layout import Layout
from mxtrain.kvstore.owners.owner import StepSums
from mxtrain.kvstore.owners.step_sum import StepSum
from mxtrain.optim import optimizer_state, optimizers
from mxtrain.optim.sums.exact_gradients import memory
from mxtrain.optim.sums.grid import num_blocks, write_maxima
from mxtrain.optim.update import Update, unscale_and_clip
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray, Optimizer, Parameter


class ParameterOwner:
    """The owner of the parameters `indices` of `layout`, to whose sums so many workers add in a step.

    An `optimizer` is the one of the layout's flags where that has been built already.
    """

    def __init__(
        self,
        layout: Layout,
        indices: Sequence[int],
        num_workers: int = 1,
        optimizer: Optimizer | None = None,
    ):
        self.indices, self._num_workers = list(indices), num_workers
        self.trained = [index for index in indices if layout.are_trained[index]]
        self._optimizer = optimizer or optimizers.build(Optim(**layout.optim))
        self._optimizer.param_dict = {index: _described(layout, index) for index in self.trained}
        self._updater = mx.optimizer.get_updater(self._optimizer)
        self._weights = {index: mx.nd.zeros(tuple(layout.shapes[index])) for index in indices}
        self._sums: dict[int, StepSum] = {}
        self._starting = threading.Lock()

    def weights(self, index: int) -> Array:
        """Return the numbers of a parameter where they are, flat, to read or write."""
        return memory(self._weights[index])

    def sum_of(self, index: int) -> StepSum:
        """Return the sum of a trained parameter's gradients in this step, to add to."""
        with self._starting:
            if index not in self._sums:
                self._sums[index] = StepSum(self._weights[index].shape, self._num_workers)
            return self._sums[index]

    @property
    def is_complete(self) -> bool:
        """Whether all sums of the step have come from all workers."""
        return len(self._sums) == len(self.trained) and all(each.is_complete for each in self._sums.values())

    def step_sums(self) -> StepSums:
        """Return what is to be known of the complete sums."""
        sums = [self._sums[index].total for index in self.trained]
        squares = [mx.nd.dot(each.reshape((-1,)), each.reshape((-1,))) for each in sums]
        maxima = [np.empty(num_blocks(each.size), np.float32) for each in sums]
        for each, of_blocks in zip(sums, maxima):
            write_maxima(memory(each), of_blocks)
        empty = np.zeros(0, np.float32)
        return StepSums(
            np.concatenate([empty, *(each.asnumpy() for each in squares)]), np.concatenate([empty, *maxima])
        )

    def apply(self, update: Update) -> None:
        """Move the trained weights by the sums, and forget these."""
        gradients = [self._sums[index].total for index in self.trained]
        unscale_and_clip(gradients, update)
        self._optimizer.set_learning_rate(update.rate)
        self._optimizer.rescale_grad = update.factor
        self._updater(self.trained, gradients, [self._weights[index] for index in self.trained])
        mx.nd.waitall()
        self._sums.clear()

    def drop(self) -> None:
        """Forget the sums."""
        self._sums.clear()

    def state(self, index: int) -> list[Array]:
        """Return the optimizer's arrays of a parameter where they are, flat, to read; none before the first update."""
        return [memory(each) for each in self._state_arrays(index)]

    def _state_arrays(self, index: int) -> Iterator[NDArray]:
        yield from optimizer_state.state_arrays(self._updater.states.get(index))

    def write_state(self, index: int, arrays: Sequence[Array]) -> None:
        """Give a parameter the arrays of its optimizer's state."""
        state = self._optimizer.create_state_multi_precision(index, self._weights[index])
        for place, array in zip(optimizer_state.state_arrays(state), arrays):
            place[:] = array.reshape(place.shape)
        self._updater.states[index] = state
        self._updater.states_synced[index] = True

    def update_counts(self) -> Mapping[str, int]:
        """Return how often each trained parameter has been updated, by its index as text."""
        self._optimizer._set_current_context(0)
        return {str(index): count for index, count in self._optimizer._index_update_count.items()}

    def set_update_counts(self, counts: Mapping[str, int]) -> None:
        """Go on from these counts, of all parameters or of more."""
        restored = {int(index): count for index, count in counts.items() if int(index) in self.trained}
        self._optimizer._all_index_update_counts[0] = restored
        self._optimizer._set_current_context(0)
        self._optimizer.num_update = max(restored.values(), default=0)


def _described(layout: Layout, index: int) -> Parameter:
    """Return a parameter without numbers, as optimizers look at one of a Trainer."""
    return mx.gluon.Parameter(
        layout.names[index],
        shape=tuple(layout.shapes[index]),
        lr_mult=layout.rate_factors[index],
        wd_mult=layout.decay_factors[index],
    )
