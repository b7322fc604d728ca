"""A worker's store over servers of the same host, which add arrays where they lie, in memory that they share with it.

What ps-lite carries of such an array is its first number: a push says that the array is there, the answer that all have
the sum. MXNet's engine makes both wait as for the whole array, as these numbers are a part of it. So everything but the
bytes is as with servers elsewhere, deaths and their messages too. What servers do is `workers_memory.py`'s.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import Sequence

import numpy as np

from mxtrain.cluster.worker_group import WorkerGroup
from mxtrain.core.errors import RestartMe
from mxtrain.data.fields import Array
from mxtrain.kvstore import commands, connections, shared_arrays
from mxtrain.optim.sums import block_tables
from mxtrain.runtime.types import KVStore, NDArray

MEMORY = b"memory"  # what the connections are for
# Of what follows a file: how many numbers it has, and how many arrays lie there. Each has a key, a start and a size,
# then the start and the number of blocks of its table.
HEAD = struct.Struct("<QQ")
PLACE_NUMBERS = 5
ADDS_ONLY = b"-"  # the answer of a server that cannot round while it adds, but takes in a file
CONNECT_SECONDS = 60.0


def connect(group: WorkerGroup) -> list[socket.socket]:
    """Return a connection to each server that takes in memory of this worker."""
    deadline, found = time.monotonic() + CONNECT_SECONDS, []
    for index, number in enumerate(group.memory_sockets):
        connection = connections.connect(number, MEMORY, group.rank, deadline)
        if connection is None:
            raise RestartMe(f"server-{index}: not connected to worker-{group.rank} in time, to share memory")
        found.append(connection)
    connections.settle(found)
    return found


class SharedServersStore:
    """MXNet's store `kv`, to whose `servers` this worker is connected by `connect`.

    Arrays that `new_arrays` has made are added where they are, others as ever.
    """

    def __init__(self, kv: KVStore, servers: Sequence[socket.socket]):
        self._kv, self._servers = kv, servers
        self._num_keys = 0  # servers know a key by its number, in the order of `init`
        self._first_numbers: dict[str, NDArray] = {}  # of arrays that are added where they are
        self.tables: dict[str, Array] = {}  # of their blocks, where all servers can round
        if self.rank == 0:
            kv._send_command_to_servers(commands.HEAD, commands.text(commands.AddInMemory()))

    @property
    def rank(self) -> int:
        return self._kv.rank

    @property
    def num_workers(self) -> int:
        return self._kv.num_workers

    def new_arrays(
        self, keys: Sequence[str], sizes: Sequence[int], lengths: Sequence[Array] = ()
    ) -> list[NDArray]:
        """Return zeros of these sizes, in memory that all servers have, known to the store by these keys.

        Their blocks have these `lengths`.
        """
        layout = shared_arrays.lay_out(sizes, [*map(len, lengths)])
        numbers = range(self._num_keys, self._num_keys + len(keys))
        rows = np.array([*zip(numbers, *layout.of_arrays())], np.int64)
        descriptor = shared_arrays.open_file(layout.room)
        shared = layout.within(shared_arrays.map_file(os.dup(descriptor), layout.room))
        for each, of_blocks in zip(shared, lengths):
            block_tables.fill(each.table, of_blocks)
        if self._give(descriptor, HEAD.pack(layout.room, len(rows)) + rows.tobytes()) and lengths:
            self.tables.update((key, each.table) for key, each in zip(keys, shared))
        arrays = [shared_arrays.in_memory(each.numbers) for each in shared]
        first_numbers = [array[:1] for array in arrays]
        self._first_numbers.update(zip(keys, first_numbers))
        self.init(keys, first_numbers)
        return arrays

    def _give(self, descriptor: int, message: bytes) -> bool:
        """Give all servers a file, which is closed, and what lies there; return whether all of them can round."""
        try:
            for server in self._servers:
                connections.send_file(server, descriptor)
                server.sendall(message)
        finally:
            os.close(descriptor)
        answers = [server.recv(1) for server in self._servers]
        if not all(answers):
            raise RestartMe("a server has ended before it had this worker's memory")
        return all(answer == connections.ACCEPTED for answer in answers)

    def init(self, keys: Sequence[str], arrays: Sequence[NDArray]) -> None:
        """Wait until all workers have called this, with the same keys of the same sizes."""
        self._num_keys += len(keys)
        self._kv.init(list(keys), list(arrays))

    def pushpull(self, key: str, value: NDArray) -> None:
        """Have `value`, or the array that `new_arrays` has made for this key, replaced by its sum over all workers."""
        self._kv.pushpull(key, self._first_numbers.get(key, value))
