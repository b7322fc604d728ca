"""Weights and optimizer on the servers, as a worker reaches them.

Over a `dist_async` store each push is an update of its own; over a `dist_sync` store it is one worker's part of an
update, which the servers make when all parts are there. Of a row-sparse table only rows travel: those that a batch
uses, and their gradients. What a server does with a push is `updates.py`'s. When all workers have to be at the same
point (at the start, for a checkpoint), they meet at the group's sums.
"""

from __future__ import annotations

import functools
import os
from typing import Any, Iterator, Mapping, Sequence

import numpy as np

from mxtrain.cluster.worker_group import WorkerGroup
from mxtrain.config.names import is_async
from mxtrain.core.errors import UsageError
from mxtrain.core.params_file import Arrays
from mxtrain.kvstore.commands import Assign, Command, SetRate, Update, text
from mxtrain.kvstore.opening import open_store
from mxtrain.kvstore.updates import CLOCK
from mxtrain.models import sparse_rows
from mxtrain.models.weights import flat
from mxtrain.runtime import mx

HEAD = 0  # of the commands that reach Python on a server


class Servers:
    """The servers' weights and optimizer, as one worker reaches them. All workers make it, and with equal weights."""

    def __init__(self, parameters: Sequence[Any], optimizer: Any, kvstore: str, group: WorkerGroup):
        self.group, self.optimizer = group, optimizer
        self.trained = {index: each for index, each in enumerate(parameters) if each.grad_req != "null"}
        num_servers = int(os.environ["DMLC_NUM_SERVER"])
        # ps-lite gives a small array to server (key * 9973) % servers and cuts a large one by its size: with a
        # multiple of their number between them, a parameter and its state lie on the same server, cut alike.
        self.stride = -(-(len(parameters) + 1) // num_servers) * num_servers
        self.store = open_store(kvstore)
        self.rate, self.seen = optimizer.lr, 0
        self.is_sync = not is_async(kvstore)
        fresh = self._fresh_state()
        self.places = {name: array.shape for name, array in fresh.items()}
        keys, arrays = zip(*self._everything(fresh, 0))
        self.store.init(list(keys), list(arrays))  # ends with a barrier: from here on servers know all keys
        if group.rank == 0:
            optimizer.lr_mult = {index + 1: each.lr_mult for index, each in self.trained.items()}
            optimizer.wd_mult = {index + 1: each.wd_mult for index, each in self.trained.items()}
            self.store.set_optimizer(optimizer)
        self.load(fresh, 0)
        for index, table in self._tables():
            table.pull_rows = functools.partial(self._pull_rows, index + 1, table)

    def push_pull(self, rate: float, factor: float) -> int:
        """Update by the first device's gradients times `factor`.

        Takes the new weights, but for tables. Gives the staleness: how many updates the others have made since the
        weights of these gradients were taken.
        """
        if self.group.rank == 0 and rate != self.rate:
            self._command(SetRate(rate))
            self.rate = rate
        for index, parameter in self.trained.items():
            # A copy: MXNet pulls the weights into the memory that was pushed.
            self.store.push(index + 1, parameter.list_grad()[0] * factor, priority=-index)
        self.store.push(CLOCK, self._clock(self.group.rank + 1))
        return self.pull()

    def pull(self) -> int:
        """Take the servers' weights, but for tables; gives the staleness of the last push."""
        for index, parameter in self.trained.items():
            if not sparse_rows.is_table(parameter):
                self.store.pull(index + 1, parameter.list_data(), priority=-index)
        clock = self._clock(0)
        self.store.pull(CLOCK, clock)
        mx.nd.waitall()
        numbers = clock.asnumpy()
        before, self.seen = self.seen, int(numbers[0])
        return int(numbers[self.group.rank + 1]) - before

    def save(self) -> tuple[Arrays, int]:
        """The optimizer's arrays and the number of updates that all have made; everybody takes the newest weights.

        All workers call it. None goes on before all have what they came for.
        """
        self.group.sum(0)
        self._pull_all()
        found = {}
        for name, shape in self.places.items():
            index, key = self._place(name)
            if sparse_rows.is_table(self.trained[index]):
                found[name] = self._pull_table(key, shape).asnumpy()
            else:
                array = mx.nd.zeros(shape)
                self.store.pull(key, array)
                found[name] = array.asnumpy()
        self.group.sum(0)
        return found, self.seen

    def load(self, state: Mapping[str, Any], num_updates: int) -> None:
        """Give the servers the first worker's weights, and the arrays of `save`. All workers call it.

        Where servers wait for a push of each worker, the others' pushes add nothing to his.
        """
        is_first = self.group.rank == 0
        self.group.sum(0)
        if is_first:
            self._command(Assign(self.stride))
        if is_first or self.is_sync:
            for key, array in self._everything(state, num_updates):
                self.store.push(key, array if is_first else _nothing_like(array))
            mx.nd.waitall()
        if is_first:
            self._command(Update(num_updates))
        self.group.sum(0)
        self._pull_all()

    def _pull_all(self) -> None:
        self.pull()
        for index, table in self._tables():
            table.set_data(self._pull_table(index + 1, table.shape))

    def _pull_table(self, key: int, shape: tuple[int, ...]) -> Any:
        pulled = sparse_rows.none(shape)
        self.store.row_sparse_pull(key, pulled, row_ids=mx.nd.arange(shape[0], dtype="int64"))
        return pulled.data

    def _pull_rows(self, key: int, table: Any, ids: Any) -> None:
        """Bring up to date what a batch on the device of `ids` uses of the table."""
        pulled = sparse_rows.none(table.shape, ids.context)
        self.store.row_sparse_pull(key, pulled, row_ids=ids.reshape((-1,)).astype("int64"))
        table.data(ids.context)[pulled.indices] = pulled.data

    def _tables(self) -> Iterator[tuple[int, Any]]:
        return ((index, each) for index, each in self.trained.items() if sparse_rows.is_table(each))

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

    def _everything(self, state: Mapping[str, Any], num_updates: int) -> Iterator[tuple[int, Any]]:
        """Every key, and what the store is to hold by it."""
        clock = self._clock(0)
        clock[0] = num_updates
        yield CLOCK, clock
        for index, parameter in self.trained.items():
            weight = parameter.list_data()[0]
            yield (
                index + 1,
                sparse_rows.whole(weight) if sparse_rows.is_table(parameter) else weight.copyto(mx.cpu()),
            )
        for name, given in state.items():
            index, key = self._place(name)
            array = mx.nd.array(given, dtype=given.dtype)
            yield key, sparse_rows.whole(array) if sparse_rows.is_table(self.trained[index]) else array

    def _place(self, name: str) -> tuple[int, int]:
        """The parameter that an array of optimizer state belongs to, and the array's key."""
        index, place = map(int, name.split("."))
        return index, (place + 1) * self.stride + index + 1

    def _clock(self, at: int) -> Any:
        clock = np.zeros(1 + self.group.world_size)
        clock[at] = at > 0
        return mx.nd.array(clock, dtype="float64")

    def _command(self, command: Command) -> None:
        self.store._send_command_to_servers(HEAD, text(command))


def _nothing_like(array: Any) -> Any:
    return sparse_rows.none(array.shape) if array.stype == "row_sparse" else array.zeros_like()
