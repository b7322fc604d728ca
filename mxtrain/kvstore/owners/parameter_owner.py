"""Weights, the sums of a step and the optimizer's state of some parameters, and their arithmetic.

The arithmetic is that of gluon's Trainer, to the bit. Owns no connection: a server calls it for all workers
(`server.py`), from several threads.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np

from mxtrain.config import Optim
from mxtrain.data.fields import Array
from mxtrain.kvstore.owners import mapped
from mxtrain.kvstore.owners.layout import Layout
from mxtrain.kvstore.owners.owner import StepSums
from mxtrain.kvstore.owners.step_sum import StepSum
from mxtrain.kvstore.updater import Updater
from mxtrain.optim import optimizer_state, optimizers
from mxtrain.optim.update import Update, unscale_and_clip
from mxtrain.runtime import mx
from mxtrain.runtime.memory import memory
from mxtrain.runtime.types import NDArray, Optimizer, Parameter


class ParameterOwner:
    """The owner of the parameters `indices` of `layout`, to whose sums so many workers add in a step.

    What it holds is in memory, or in files of `folder`. MXNet's engine makes an update after `apply` has returned, and
    what needs its result waits for that parameter alone. An `optimizer` is the one of the layout's flags where that has
    been built already.
    """

    def __init__(
        self,
        layout: Layout,
        indices: Sequence[int],
        num_workers: int = 1,
        folder: Path | None = None,
        optimizer: Optimizer | None = None,
    ):
        self.indices, self._num_workers, self._folder = list(indices), num_workers, folder
        self.trained = [index for index in indices if layout.are_trained[index]]
        self._optimizer = optimizer or optimizers.build(Optim(**layout.optim))
        self._optimizer.param_dict = {index: _described(layout, index) for index in self.trained}
        self._updater = Updater(self._optimizer)
        self._weights = {index: mapped.zeros(tuple(layout.shapes[index]), folder) for index in indices}
        self._sums: dict[int, StepSum] = {}
        self._num_complete = 0
        self._counting = threading.Lock()

    def weights(self, index: int) -> Array:
        """Return the numbers of a parameter where they are, flat, to read or write."""
        return memory(self._weights[index])

    def sum_of(self, index: int) -> StepSum:
        """Return the sum of a trained parameter's gradients in this step, to add to."""
        with self._counting:
            if index not in self._sums:
                total = mapped.zeros(self._weights[index].shape, self._folder)
                self._sums[index] = StepSum(total, self._num_workers)
        self._weights[index].wait_to_read()  # until the last update, which reads the last sum, is made
        return self._sums[index]

    def finish_addend(self, index: int) -> None:
        """Note that a worker has added all of its numbers to a sum."""
        if self._sums[index].finish_addend():
            with self._counting:
                self._num_complete += 1

    @property
    def is_complete(self) -> bool:
        """True once all sums of the step have come from all workers."""
        return self._num_complete == len(self.trained)

    def step_sums(self) -> StepSums:
        """Return what is to be known of the complete sums."""
        sums = [self._sums[index] for index in self.trained]
        squares = [each.square for each in sums if each.square is not None]
        empty = np.zeros(0, np.float32)
        return StepSums(
            np.concatenate([empty, *squares]), np.concatenate([empty, *(each.maxima for each in sums)])
        )

    def apply(self, update: Update) -> None:
        """Move the trained weights by the complete sums, and begin new ones; does not wait."""
        gradients = [self._sums[index].total for index in self.trained]
        unscale_and_clip(gradients, update)
        self._optimizer.set_learning_rate(update.rate)
        self._optimizer.rescale_grad = update.factor
        for index in self.trained:
            if index not in self._updater.states:
                self._new_state(index)
        if self.trained:
            self._updater(self.trained, gradients, [self._weights[index] for index in self.trained])
        self._restart()

    def drop(self) -> None:
        """Forget the sums."""
        self._restart()

    def _restart(self) -> None:
        self._num_complete = 0
        for each in self._sums.values():
            each.restart()

    def state(self, index: int) -> list[Array]:
        """Return the optimizer's arrays of a parameter where they are, flat, to read; none before the first update."""
        return [memory(each) for each in optimizer_state.state_arrays(self._updater.states.get(index))]

    def write_state(self, index: int, arrays: Sequence[Array]) -> None:
        """Give a parameter the arrays of its optimizer's state; ValueError for what is none."""
        places = optimizer_state.state_arrays(self._new_state(index))
        if [place.size for place in places] != list(map(len, arrays)):
            raise ValueError(
                f"parameter {index}: no such state, of {[len(array) for array in arrays]} numbers"
            )
        for place, array in zip(places, arrays):
            place[:] = array.reshape(place.shape)

    def _new_state(self, index: int) -> Any:
        state = self._optimizer.create_state_multi_precision(index, self._weights[index])
        if self._folder is not None:
            state = _moved(state, self._folder)
        self._updater.states[index], self._updater.states_synced[index] = state, True
        return state

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


def _moved(state: Any, folder: Path) -> Any:
    """Return an optimizer's state of a parameter with its arrays in files."""
    if state is None:
        return None
    if isinstance(state, (list, tuple)):
        return type(state)(_moved(part, folder) for part in state)
    array: NDArray = mapped.zeros(state.shape, folder)
    state.copyto(array)
    return array
