"""A store whose sums the workers make among themselves, as `Buckets` and `WideBlocks` use one.

Owns the thread that makes the sums of a worker, one array after the other in the order of calls, the same on all
workers. It adds where an array is. It knows of no key what it means.
"""

from __future__ import annotations

import atexit
import threading
import zlib
from collections import Counter
from queue import SimpleQueue
from typing import Callable, Sequence, Tuple

import numpy as np

from mxtrain.core.errors import RestartMe
from mxtrain.data.fields import Array
from mxtrain.kvstore import connections, shared_arrays
from mxtrain.kvstore.allreduce import peers
from mxtrain.kvstore.allreduce.host_sums import HostSums
from mxtrain.kvstore.allreduce.network_sums import NetworkSums
from mxtrain.kvstore.shared_arrays import Shared
from mxtrain.optim.sums import block_tables
from mxtrain.runtime import mx
from mxtrain.runtime.memory import memory
from mxtrain.runtime.types import NDArray

START = "start"
CLOSE_SECONDS = 2.0
ABANDONED = ""  # said to others that wait for a sum: they take it for a death
Job = Tuple[str, Callable[[], None]]


class AllreduceStore:
    """A store of as many workers as there are `numbers`, of their sockets by rank; see `peers.connect`.

    `hosts` says by rank where a worker is: those of equal hosts share memory, and one of each adds over hosts. All
    arrays are float32. A sum is there once `wait` returns; until then its array is the store's.
    """

    def __init__(self, rank: int, numbers: Sequence[int], hosts: Sequence[str], seconds: float = 60.0):
        self.rank, self.num_workers = rank, len(numbers)
        self._peers = peers.connect(rank, numbers, seconds)
        self._host, self._network, self._add = _summation(self._peers, hosts)
        # Arrays that are added where they are: those of the host's workers.
        self._shared: dict[str, tuple[Shared, ...]] = {}
        self.tables: dict[str, Array] = {}  # of this worker's, where no worker is elsewhere
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._pending: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="allreduce", daemon=True)
        self._thread.start()
        atexit.register(self.close)  # or others would take this worker's end for a death

    def init(self, keys: Sequence[str], arrays: Sequence[NDArray]) -> None:
        """Wait until all workers have called this, with the same keys of the same sizes."""
        if any(array.dtype != np.float32 for array in arrays):
            raise TypeError(f"{', '.join(keys)}: only float32 can be summed")
        text = repr([(key, array.size) for key, array in zip(keys, arrays)])
        own = float(zlib.crc32(text.encode()) & 0xFFFF)  # of which float32 adds those of 256 workers exactly
        total = np.full(1, own, np.float32)
        self._put(START, lambda: self._add(total))
        self.wait(START)
        if total[0] != own * self.num_workers:
            raise RuntimeError(f"other workers sum others than {text}")

    def new_arrays(
        self, keys: Sequence[str], sizes: Sequence[int], lengths: Sequence[Array] = ()
    ) -> list[NDArray]:
        """Return zeros of these sizes, in memory that the host's workers share, known to the store by these keys.

        Their blocks have these `lengths`.
        """
        if self._host is None:
            arrays = [mx.nd.zeros((size,)) for size in sizes]
        else:
            arrays = self._new_shared(self._host, keys, sizes, lengths)
        self.init(keys, arrays)
        return arrays

    def _new_shared(
        self, host: HostSums, keys: Sequence[str], sizes: Sequence[int], lengths: Sequence[Array]
    ) -> list[NDArray]:
        layout = shared_arrays.lay_out(sizes, [*map(len, lengths)])
        made: list[Array] = []
        self._put(START, lambda: made.append(host.new_rows(layout.room)))
        self.wait(START)
        of_workers = [layout.within(row) for row in made[0]]
        own = layout.within(host.own_row(made[0]))
        for each, of_blocks in zip(own, lengths):
            block_tables.fill(each.table, of_blocks)
        self._shared.update(zip(keys, zip(*of_workers)))
        if host.is_all and lengths:
            self.tables.update((key, each.table) for key, each in zip(keys, own))
        return [shared_arrays.in_memory(each.numbers) for each in own]

    def pushpull(self, key: str, value: NDArray, is_rounded: bool = False) -> None:
        """Have `value` replaced by its sum over all workers, once what MXNet was asked to write to it is there.

        `is_rounded` the sums of a host travel to others in bfloat16, and so do all sums back.
        """
        self._put(key, lambda: self._add_array(key, value, is_rounded))

    def wait(self, key: str) -> None:
        """Wait until the sums of a key are there; raises what kept them from it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._pending[key] or self._failure is not None)
            if self._pending[key] and self._failure is not None:
                raise self._failure

    def close(self) -> None:
        """Leave the others: in peace, unless they wait for a sum."""
        atexit.unregister(self.close)
        self._jobs.put(None)
        if self._failure is None:
            self._peers.end(ABANDONED if any(self._pending.values()) else connections.PEACE)
        self._thread.join(CLOSE_SECONDS)
        if self._network is not None:
            self._network.close()
        self._peers.close()

    def _put(self, key: str, add: Callable[[], None]) -> None:
        with self._changed:
            self._pending[key] += 1
        self._jobs.put((key, add))

    def _run(self) -> None:
        for key, add in iter(self._jobs.get, None):
            try:
                add()
            except Exception as error:
                self._fail(error)
                return
            with self._changed:
                self._pending[key] -= 1
                self._changed.notify_all()

    def _fail(self, error: Exception) -> None:
        """Keep the reason for `wait`, and end for it: the others learn who is gone, or that this worker has failed."""
        self._peers.end(str(error) if isinstance(error, RestartMe) else ABANDONED)
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    def _add_array(self, key: str, array: NDArray, is_rounded: bool) -> None:
        if self._network is not None:
            self._network.is_rounded = is_rounded
        if self._host is not None and key in self._shared:
            array.wait_to_read()
            self._host.add_shared(self._shared[key])
            return
        if array.context.device_type.startswith("cpu"):
            self._add(memory(array))
            return
        on_host = array.copyto(mx.cpu())
        self._add(memory(on_host))
        on_host.copyto(array)
        array.wait_to_read()


def _summation(
    connected: peers.Peers, hosts: Sequence[str]
) -> tuple[HostSums | None, NetworkSums | None, Callable[[Array], None]]:
    """Return how this worker sums: within its host first, then over hosts, of each of which one worker does it.

    Without others on its host, or without a part over hosts, there is None of that.
    """
    own = hosts[connected.rank]
    members = [rank for rank, host in enumerate(hosts) if host == own]
    leaders = [hosts.index(host) for host in dict.fromkeys(hosts)]
    is_leader = len(leaders) > 1 and connected.rank in leaders
    network = NetworkSums(connected, leaders) if is_leader else None
    over_hosts = _nothing if network is None else network.add
    if len(members) == 1:
        return None, network, over_hosts
    host = HostSums(connected, members, over_hosts if len(leaders) > 1 else None)
    return host, network, host.add


def _nothing(_: Array) -> None:
    """Leave numbers as they are, where others add them or nobody has any to add."""
