"""What a server does with what workers push.

Owns what a key means where servers hold the weights: number 0 is the clock, 1 and the following ones are parameters,
and `stride` numbers further on comes each one's first array of optimizer state, then its second. The optimizer works in
those arrays of the store, so that workers set and read them as they do weights: a server writes no files.
"""

from __future__ import annotations

from typing import Any, Iterator

import numpy as np

from mxtrain.kvstore.commands import Assign, SetRate, Update
from mxtrain.models.weights import flat
from mxtrain.runtime import mx

CLOCK = 0


class Updates:
    """The updater of a server's store: `optimizer` applied to every push, until commands say more."""

    def __init__(self, optimizer: Any):
        self.optimizer = optimizer
        self.updater = mx.optimizer.get_updater(optimizer)
        self.stride = 0  # the workers are stock ones: every key is a parameter
        self.assigning = False
        self.places: dict[int, dict[int, Any]] = {}  # of each parameter, the arrays of its state

    def obey(self, command: SetRate | Assign | Update) -> None:
        if isinstance(command, SetRate):
            self.optimizer.set_learning_rate(command.learning_rate)
        elif isinstance(command, Assign):
            self.stride, self.assigning = command.stride, True
        else:
            self.assigning = False
            self.optimizer.begin_num_update = self.optimizer.num_update = command.num_updates
            self.optimizer._index_update_count.clear()

    def __call__(self, key: int, pushed: Any, stored: Any) -> None:
        if not self.stride:
            self.updater(key, pushed, stored)
        elif self.assigning:
            self._assign(key, pushed, stored)
        elif key == CLOCK:
            _tick(pushed, stored)
        else:
            self._update(key, pushed, stored)

    def _assign(self, key: int, pushed: Any, stored: Any) -> None:
        place, parameter = divmod(key, self.stride)
        if place:
            self.places.setdefault(parameter, {})[place] = stored
        stored[:] = pushed
        stored.wait_to_read()

    def _update(self, key: int, gradient: Any, weight: Any) -> None:
        if key not in self.updater.states:
            places = self.places.get(key, {})
            fresh = self.optimizer.create_state_multi_precision(key, weight)
            self.updater.states[key] = _filled(fresh, iter([places[place] for place in sorted(places)]))
            self.updater.states_synced[key] = True
        self.updater(key, gradient, weight)
        # ps-lite answers when this returns: a worker that knows it may pull the state as well.
        for array in (weight, *flat(self.updater.states[key])):
            array.wait_to_read()


def _filled(state: Any, arrays: Iterator[Any]) -> Any:
    """An optimizer state with these arrays in the places of its own."""
    if state is None:
        return None
    if isinstance(state, (list, tuple)):
        return type(state)(_filled(part, arrays) for part in state)
    return next(arrays)


def _tick(pushed: Any, clock: Any) -> None:
    """The clock counts updates; behind that it has what it showed at the last one that each worker was part of."""
    numbers = clock.asnumpy()
    numbers[np.flatnonzero(pushed.asnumpy())] = numbers[0]
    numbers[0] += 1
    clock[:] = numbers
