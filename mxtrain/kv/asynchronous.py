"""The worker's side of `dist_async`: weights and optimizer live on the servers, nobody waits for anybody.

Each push is an update of its own, by the mean gradient over the samples of this worker's batch. What a server does
with a push is `updates.py`'s. When all workers have to be at the same point (at the start, for a checkpoint), they
meet at the group's sums.
"""

from __future__ import annotations

import os
from typing import Any, Iterator, Mapping, Sequence

import numpy as np

from mxtrain.errors import UsageError
from mxtrain.kv.commands import Assign, Command, SetRate, Update, text
from mxtrain.kv.group import Group
from mxtrain.kv.updates import CLOCK
from mxtrain.runtime import mx
from mxtrain.train.arrays import Arrays
from mxtrain.train.weights import flat

HEAD = 0  # of the commands that reach Python on a server


class Servers:
    """The servers' weights and optimizer, as one worker reaches them. All workers make it, and with equal weights."""

    def __init__(self, parameters: Sequence[Any], optimizer: Any, kvstore: str, group: Group):
        self.group, self.optimizer = group, optimizer
        self.trained = {index: each for index, each in enumerate(parameters) if each.grad_req != "null"}
        num_servers = int(os.environ["DMLC_NUM_SERVER"])
        # ps-lite gives a small array to server (key * 9973) % servers and cuts a large one by its size: with a
        # multiple of their number between them, a parameter and its state lie on the same server, cut alike.
        self.stride = -(-(len(parameters) + 1) // num_servers) * num_servers
        self.store = mx.kv.create(kvstore)
        self.rate, self.seen = optimizer.lr, 0
        fresh = self._fresh_state()
        self.places = {name: array.shape for name, array in fresh.items()}
        keys, arrays = zip((CLOCK, self._clock(0)), *self._weights(), *self._keyed(fresh))
        self.store.init(list(keys), list(arrays))  # ends with a barrier: from here on servers know all keys
        if group.number == 0:
            optimizer.lr_mult = {index + 1: each.lr_mult for index, each in self.trained.items()}
            optimizer.wd_mult = {index + 1: each.wd_mult for index, each in self.trained.items()}
            self.store.set_optimizer(optimizer)
        self.load(fresh, 0)

    def push_pull(self, num_samples: float, rate: float) -> int:
        """Update by the first device's gradients, sums over `num_samples` samples, and take the new weights.

        Gives the staleness: how many updates the others have made since the weights of these gradients were taken.
        """
        if self.group.number == 0 and rate != self.rate:
            self._command(SetRate(rate))
            self.rate = rate
        for index, parameter in self.trained.items():
            # A copy: MXNet pulls the weights into the memory that was pushed.
            self.store.push(index + 1, parameter.list_grad()[0] / num_samples, priority=-index)
        self.store.push(CLOCK, self._clock(self.group.number + 1))
        return self.pull()

    def pull(self) -> int:
        """Take the servers' weights; gives the staleness of the last push."""
        for index, parameter in self.trained.items():
            self.store.pull(index + 1, parameter.list_data(), priority=-index)
        clock = self._clock(0)
        self.store.pull(CLOCK, clock)
        mx.nd.waitall()
        numbers = clock.asnumpy()
        before, self.seen = self.seen, int(numbers[0])
        return int(numbers[self.group.number + 1]) - before

    def save(self) -> tuple[Arrays, int]:
        """The optimizer's arrays and the number of updates that all have made; everybody takes the newest weights.

        All workers call it. None goes on before all have what they came for.
        """
        self.group.sum(0)
        self.pull()
        arrays = {name: mx.nd.zeros(shape) for name, shape in self.places.items()}
        for key, array in self._keyed(arrays):
            self.store.pull(key, array)
        found = {name: array.asnumpy() for name, array in arrays.items()}
        self.group.sum(0)
        return found, self.seen

    def load(self, state: Mapping[str, Any], num_updates: int) -> None:
        """Give the servers this worker's weights, and the arrays of `save`. All workers call it."""
        self.group.sum(0)
        if self.group.number == 0:
            self._command(Assign(self.stride))
            clock = self._clock(0)
            clock[0] = num_updates
            for key, array in [(CLOCK, clock), *self._weights(), *self._keyed(state)]:
                self.store.push(key, mx.nd.array(array, dtype=array.dtype))
            mx.nd.waitall()
            self._command(Update(num_updates))
        self.group.sum(0)
        self.pull()

    def _fresh_state(self) -> dict[str, Any]:
        """By `index.place`, as a trainer's state is kept in checkpoints."""
        state = {}
        for index, parameter in self.trained.items():
            weight = parameter.list_data()[0].as_in_context(mx.cpu())
            for place, array in enumerate(flat(self.optimizer.create_state_multi_precision(index, weight))):
                if array.shape != weight.shape:
                    name = type(self.optimizer).__name__
                    raise UsageError(
                        f"--optimizer {name}: its state cannot be cut as weights are; give another"
                    )
                state[f"{index}.{place}"] = array
        return state

    def _keyed(self, state: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
        for name, array in state.items():
            index, place = map(int, name.split("."))
            yield (place + 1) * self.stride + index + 1, array

    def _weights(self) -> Iterator[tuple[int, Any]]:
        for index, parameter in self.trained.items():
            yield index + 1, parameter.list_data()[0].copyto(mx.cpu())

    def _clock(self, at: int) -> Any:
        clock = np.zeros(1 + self.group.count)
        clock[at] = at > 0
        return mx.nd.array(clock, dtype="float64")

    def _command(self, command: Command) -> None:
        self.store._send_command_to_servers(HEAD, text(command))
