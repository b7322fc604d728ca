"""A server's sums of arrays of its host's workers, where they lie: in memory that each worker has given it.

Owns the thread that takes in files, and the sum of an array once all workers have pushed its first number. A worker's
side is `shared_servers.py`'s.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections import defaultdict
from typing import Callable

import numpy as np

from mxtrain import native
from mxtrain.kvstore import connections, shared_arrays
from mxtrain.kvstore.owners import messages
from mxtrain.kvstore.shared_arrays import Shared
from mxtrain.kvstore.shared_servers import ADDS_ONLY, HEAD, MEMORY, PLACE_NUMBERS
from mxtrain.optim.sums import block_tables
from mxtrain.runtime.memory import memory
from mxtrain.runtime.types import NDArray

ACCEPT_SECONDS = 1e6  # somebody else sees to who does not come
MOST_ARRAYS = 1 << 20


class WorkersMemory:
    """The arrays of workers by key and rank, as they come to the socket `number`; `fail` is told what goes wrong."""

    def __init__(self, number: int, num_workers: int, fail: Callable[[Exception], None]):
        self._num_workers, self._fail = num_workers, fail
        self._arrays: defaultdict[int, dict[int, Shared]] = defaultdict(dict)
        threading.Thread(target=self._run, args=[number], name="memory", daemon=True).start()

    def add(self, key: int, pushed: NDArray, stored: NDArray) -> None:
        """Add the arrays of a key where they are, or if there are none store what was pushed, which is a sum.

        Called by ps-lite once all workers have pushed; they are answered when this returns, with what is stored.
        """
        arrays = [array for _, array in sorted(self._arrays.get(key, {}).items())]
        if not arrays:
            pushed.copyto(stored)
        else:
            shared_arrays.add_shared(arrays, slice(0, len(arrays[0].numbers)))
            memory(stored)[:] = arrays[0].numbers[:1]

    def _run(self, number: int) -> None:
        try:
            self._take_in(number)
        except Exception as error:
            self._fail(error)

    def _take_in(self, number: int) -> None:
        wanted = [(MEMORY, rank) for rank in range(self._num_workers)]
        with connections.listening(number, len(wanted)) as listener:
            ends = connections.accept(listener, wanted, time.monotonic() + ACCEPT_SECONDS)
        connections.settle(ends.values())
        of_descriptors = {end.fileno(): (rank, end) for (_, rank), end in ends.items()}
        poller = select.poll()
        for descriptor in of_descriptors:
            poller.register(descriptor, select.POLLIN)
        while True:
            for descriptor, _ in poller.poll():
                if not self._take_file(*of_descriptors[descriptor]):
                    poller.unregister(descriptor)

    def _take_file(self, rank: int, connection: socket.socket) -> bool:
        """Take in a file and where arrays lie there; return False where the worker has ended."""
        try:
            file = connections.receive_file(connection)
            if file is None:
                return False
            count, num_arrays = HEAD.unpack(messages.receive_bytes(connection, HEAD.size))
            places = messages.receive_array(
                connection, PLACE_NUMBERS * min(num_arrays, MOST_ARRAYS), np.int64
            )
        except (OSError, EOFError):  # its death, which others see to
            return False
        numbers = shared_arrays.map_file(file, count)
        for key, start, size, start_of_table, num_blocks in places.reshape(-1, PLACE_NUMBERS).tolist():
            if not 0 <= start < start + size <= count:
                raise ValueError(f"an array of {size} numbers at {start} of {count}")
            table = shared_arrays.table_at(numbers, start_of_table, num_blocks)
            if num_blocks and not block_tables.is_whole(table, size):
                raise ValueError(f"an array of {size} numbers, and blocks of others")
            self._arrays[key][rank] = Shared(numbers[start : start + size], table)
        connection.sendall(ADDS_ONLY if native.OPERATORS is None else connections.ACCEPTED)
        return True
