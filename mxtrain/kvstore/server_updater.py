"""The update that a server makes with what workers push.

Owns the meaning of a key where servers hold the weights: key 0 is the clock, 1 and the following ones are parameters;
`stride` further on comes each parameter's first array of optimizer state, then its second. The optimizer works in
those arrays of the store, so workers set and pull them as they do weights, and a server writes no files.
"""

from __future__ import annotations

from typing import Any, Iterator

import numpy as np

from mxtrain.kvstore.commands import Assign, OfUpdater, SetLearningRate
from mxtrain.kvstore.updater import Updater
from mxtrain.optim.optimizer_state import state_arrays
from mxtrain.runtime.types import NDArray, Optimizer

CLOCK = 0


class ServerUpdater:
    """The updater of a server's store: applies `optimizer` to every push, until a command changes that."""

    def __init__(self, optimizer: Optimizer):
        self.optimizer = optimizer
        self.updater = Updater(optimizer)
        self.stride = 0  # as long as the workers are stock ones: every key is a parameter
        self.is_assigning = False
        self.state_of: dict[
            int, dict[int, Any]
        ] = {}  # by a parameter's key, its state's arrays by their place

    def execute(self, command: OfUpdater) -> None:
        """Change the learning rate, or what following pushes mean."""
        if isinstance(command, SetLearningRate):
            self.optimizer.set_learning_rate(command.learning_rate)
        elif isinstance(command, Assign):
            self.stride, self.is_assigning = command.stride, True
        else:
            self.is_assigning = False
            self.optimizer.begin_num_update = self.optimizer.num_update = command.num_updates
            self.optimizer._index_update_count.clear()

    def __call__(self, key: int, pushed: NDArray, stored: NDArray) -> None:
        """Change the array `stored` under `key` by what was pushed to it."""
        if not self.stride:
            self.updater(key, pushed, stored)
        elif self.is_assigning:
            self._assign(key, pushed, stored)
        elif key == CLOCK:
            _advance_clock(pushed, stored)
        else:
            self._update(key, pushed, stored)

    def _assign(self, key: int, pushed: NDArray, stored: NDArray) -> None:
        place, parameter = divmod(key, self.stride)
        if place:
            self.state_of.setdefault(parameter, {})[place] = stored
        stored[:] = pushed
        stored.wait_to_read()

    def _update(self, key: int, gradient: NDArray, weight: NDArray) -> None:
        if key not in self.updater.states:
            arrays = self.state_of.get(key, {})
            fresh = self.optimizer.create_state_multi_precision(key, weight)
            self.updater.states[key] = _replaced(fresh, iter([arrays[place] for place in sorted(arrays)]))
            self.updater.states_synced[key] = True
        self.updater(key, gradient, weight)
        # ps-lite answers when this returns, and a worker with an answer may pull the state as well.
        for array in (weight, *state_arrays(self.updater.states[key])):
            array.wait_to_read()


def _replaced(state: Any, arrays: Iterator[Any]) -> Any:
    """Return an optimizer state of the same structure with `arrays` in place of its own."""
    if state is None:
        return None
    if isinstance(state, (list, tuple)):
        return type(state)(_replaced(part, arrays) for part in state)
    return next(arrays)


def _advance_clock(pushed: NDArray, clock: NDArray) -> None:
    """Count one update. The clock's first number is that count; then, for each worker, the count before its last one.

    `pushed` is not zero where the workers of this update have their numbers.
    """
    numbers = clock.asnumpy()
    numbers[np.flatnonzero(pushed.asnumpy())] = numbers[0]
    numbers[0] += 1
    clock[:] = numbers
