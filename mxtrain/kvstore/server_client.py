"""A worker's access to weights and optimizer that live on the servers.

Owns the keys, and what a worker pushes and pulls. Over a `dist_async` store each push is an update of its own; over a
`dist_sync` store it is one worker's part of an update, which the servers make when all parts are there. Of a row-sparse
table only rows travel: those that a batch uses, and their gradients. What a server does with a push is
`server_updater.py`'s. Where all workers have to be at the same point (at the start, for a checkpoint), the group's sums
are the barrier.
"""

from __future__ import annotations

import functools
import os
from typing import Iterator, Mapping, Sequence

import numpy as np

from mxtrain.cluster.worker_group import WorkerGroup
from mxtrain.config.components.stores import is_async
from mxtrain.core.errors import UsageError
from mxtrain.core.params_file import Arrays
from mxtrain.kvstore.commands import HEAD, ApplyUpdates, Assign, Command, SetLearningRate, text
from mxtrain.kvstore.server_updater import CLOCK
from mxtrain.kvstore.store import open_servers
from mxtrain.models.nets import sparse_rows
from mxtrain.optim.optimizer_state import state_arrays
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray, Optimizer, Parameter


class ServerClient:
    """One worker's client of all servers. All workers make it at the same time, with equal weights."""

    def __init__(
        self, parameters: Sequence[Parameter], optimizer: Optimizer, kvstore: str, group: WorkerGroup
    ):
        self.group, self.optimizer = group, optimizer
        self.trained = {index: each for index, each in enumerate(parameters) if each.grad_req != "null"}
        num_servers = int(os.environ["DMLC_NUM_SERVER"])
        # ps-lite gives a small array to server (key * 9973) % servers and splits a large one by its size: with a
        # multiple of the servers between their keys, a parameter and its state lie on the same server, split alike.
        self.stride = -(-(len(parameters) + 1) // num_servers) * num_servers
        self.store = open_servers(kvstore, group)
        self.rate, self.num_updates = optimizer.lr, 0
        self.is_sync = not is_async(kvstore)
        fresh = self._fresh_state()
        self.state_shapes = {name: array.shape for name, array in fresh.items()}
        keys, arrays = zip(*self._keys_and_arrays(fresh, 0))
        self.store.init(list(keys), list(arrays))  # ends with a barrier: from here on servers know all keys
        if group.rank == 0:
            optimizer.lr_mult = {index + 1: each.lr_mult for index, each in self.trained.items()}
            optimizer.wd_mult = {index + 1: each.wd_mult for index, each in self.trained.items()}
            self.store.set_optimizer(optimizer)
        self.load(fresh, 0)
        for index, table in self._tables():
            table.pull_rows = functools.partial(self._pull_rows, index + 1, table)

    def push_pull(self, rate: float, factor: float) -> int:
        """Update with the first device's gradients times `factor`, and pull the new weights, but for tables.

        Returns the staleness: how many updates the others have made since the weights of these gradients were pulled.
        """
        if self.group.rank == 0 and rate != self.rate:
            self._command(SetLearningRate(rate))
            self.rate = rate
        for index, parameter in self.trained.items():
            # A copy: MXNet pulls the weights into the memory that was pushed.
            self.store.push(index + 1, parameter.list_grad()[0] * factor, priority=-index)
        self.store.push(CLOCK, self._clock(self.group.rank + 1))
        return self.pull()

    def pull(self) -> int:
        """Pull the servers' weights, but for tables, and return the staleness of the last push."""
        for index, parameter in self.trained.items():
            if not sparse_rows.is_table(parameter):
                self.store.pull(index + 1, parameter.list_data(), priority=-index)
        clock = self._clock(0)
        self.store.pull(CLOCK, clock)
        mx.nd.waitall()
        numbers = clock.asnumpy()
        before, self.num_updates = self.num_updates, int(numbers[0])
        return int(numbers[self.group.rank + 1]) - before

    def save(self) -> tuple[Arrays, int]:
        """Pull the newest weights; return the optimizer's arrays and the number of updates by all workers.

        All workers call it, and none continues before all have pulled.
        """
        self.group.sum(0)
        self._pull_all()
        arrays = {}
        for name, shape in self.state_shapes.items():
            index, key = self._index_and_key(name)
            if sparse_rows.is_table(self.trained[index]):
                arrays[name] = self._pull_table(key, shape).asnumpy()
            else:
                array = mx.nd.zeros(shape)
                self.store.pull(key, array)
                arrays[name] = array.asnumpy()
        self.group.sum(0)
        return arrays, self.num_updates

    def load(self, state: Mapping[str, NDArray], num_updates: int) -> None:
        """Replace what the servers hold by the first worker's weights and by the arrays of `save`; all workers call it.

        A `dist_sync` server waits for a push of every worker, so the others push zeros.
        """
        is_first = self.group.rank == 0
        self.group.sum(0)
        if is_first:
            self._command(Assign(self.stride))
        if is_first or self.is_sync:
            for key, array in self._keys_and_arrays(state, num_updates):
                self.store.push(key, array if is_first else _zeros_like(array))
            mx.nd.waitall()
        if is_first:
            self._command(ApplyUpdates(num_updates))
        self.group.sum(0)
        self._pull_all()

    def _pull_all(self) -> None:
        self.pull()
        for index, table in self._tables():
            table.set_data(self._pull_table(index + 1, table.shape))

    def _pull_table(self, key: int, shape: tuple[int, ...]) -> NDArray:
        pulled = sparse_rows.empty(shape)
        self.store.row_sparse_pull(key, pulled, row_ids=mx.nd.arange(shape[0], dtype="int64"))
        return pulled.data

    def _pull_rows(self, key: int, table: Parameter, ids: NDArray) -> None:
        """Pull the rows of the table that a batch uses, to the device of `ids`."""
        pulled = sparse_rows.empty(table.shape, ids.context)
        self.store.row_sparse_pull(key, pulled, row_ids=ids.reshape((-1,)).astype("int64"))
        table.data(ids.context)[pulled.indices] = pulled.data

    def _tables(self) -> Iterator[tuple[int, Parameter]]:
        return ((index, each) for index, each in self.trained.items() if sparse_rows.is_table(each))

    def _fresh_state(self) -> dict[str, NDArray]:
        """Return new optimizer state by `index.place`, the names that checkpoints have."""
        state = {}
        for index, parameter in self.trained.items():
            weight = parameter.list_data()[0].as_in_context(mx.cpu())
            arrays = state_arrays(self.optimizer.create_state_multi_precision(index, weight))
            for place, array in enumerate(arrays):
                if array.shape != weight.shape:
                    name = type(self.optimizer).__name__
                    raise UsageError(
                        f"--optimizer {name}: its state cannot be cut as weights are; give another"
                    )
                state[f"{index}.{place}"] = array
        return state

    def _keys_and_arrays(
        self, state: Mapping[str, NDArray], num_updates: int
    ) -> Iterator[tuple[int, NDArray]]:
        """Yield every key with the array that servers are to hold under it."""
        clock = self._clock(0)
        clock[0] = num_updates
        yield CLOCK, clock
        for index, parameter in self.trained.items():
            weight, is_table = parameter.list_data()[0], sparse_rows.is_table(parameter)
            yield index + 1, sparse_rows.with_all_rows(weight) if is_table else weight.copyto(mx.cpu())
        for name, values in state.items():
            index, key = self._index_and_key(name)
            array = mx.nd.array(values, dtype=values.dtype)
            yield (
                key,
                sparse_rows.with_all_rows(array) if sparse_rows.is_table(self.trained[index]) else array,
            )

    def _index_and_key(self, name: str) -> tuple[int, int]:
        """Return the index of the parameter that the state array `name` belongs to, and the array's key."""
        index, place = map(int, name.split("."))
        return index, (place + 1) * self.stride + index + 1

    def _clock(self, at: int) -> NDArray:
        clock = np.zeros(1 + self.group.world_size)
        clock[at] = at > 0
        return mx.nd.array(clock, dtype="float64")

    def _command(self, command: Command) -> None:
        self.store._send_command_to_servers(HEAD, text(command))


def _zeros_like(array: NDArray) -> NDArray:
    return sparse_rows.empty(array.shape) if array.stype == "row_sparse" else array.zeros_like()
