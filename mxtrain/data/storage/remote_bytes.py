"""The bytes of a file in a store: read through the cache of blocks, and requested before they are used.

A block is some MB of whole records, the unit of a request. What is read before anybody has said where records start,
as a file is opened, is a request of its own. Does not choose what is needed: the loader knows the order of samples.
"""

from __future__ import annotations

import logging
import queue
import threading
import weakref
from typing import Any, Sequence

import numpy as np
import numpy.typing as npt

from mxtrain.config.values.addresses import Address
from mxtrain.data.storage import stores
from mxtrain.data.storage.block_cache import BlockCache
from mxtrain.data.storage.options import StorageOptions
from mxtrain.data.storage.stores import FileVersion

logger = logging.getLogger(__name__)

Ints = npt.NDArray[np.int64]


class RemoteBytes:
    """An open file of a store. `LocalBytes` has the same methods."""

    is_remote = True

    def __init__(self, address: Address, version: FileVersion, options: StorageOptions):
        self.address, self.version, self.options = address, version, options
        self.num_bytes = version.num_bytes
        self._cache = BlockCache(
            options, f"{address} {version.num_bytes} {version.tag} {options.block_bytes}"
        )
        self._cuts: Ints | None = None
        self._pending: set[int] = set()  # starts of blocks that are requested
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        """Pickle what the file is; another process has connections of its own."""
        return RemoteBytes, (self.address, self.version, self.options)

    def read(self, offset: int, num_bytes: int) -> bytes:
        """Return bytes from an offset on, fewer at the end of the file."""
        end = min(offset + num_bytes, self.num_bytes)
        if offset >= end:
            return b""
        if self._cuts is None:
            return stores.read(self.address, offset, end, self.version, self.options.patience)
        parts: list[bytes] = []
        while offset < end:
            start, block_end = self._block_at(offset)
            last = min(end, block_end)
            parts.append(self._open(start, block_end).read(offset - start, last - offset))
            offset = last
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def spans(self, starts: Sequence[int], ends: Sequence[int]) -> list[bytes]:
        """Return the bytes from each start to its end."""
        return [self.read(start, end - start) for start, end in zip(starts, ends)]

    def cut(self, starts: Ints) -> None:
        """Take note of where records start, sorted, so that blocks hold whole ones."""
        self._cuts = np.append(starts[chunk_starts(starts, self.options.block_bytes)], self.num_bytes)

    def will_need(self, starts: Sequence[int], ends: Sequence[int]) -> None:
        """Request the blocks of these bytes, without waiting for them."""
        if self._cuts is None:
            return
        numbers = np.searchsorted(self._cuts, np.asarray(starts), side="right") - 1
        for number in dict.fromkeys(numbers.tolist()):
            self._request(int(self._cuts[number]), int(self._cuts[number + 1]))

    def _request(self, start: int, end: int) -> None:
        with self._lock:
            is_much = (len(self._pending) + 1) * (end - start) > self.options.cache_bytes // 2
            if start in self._pending or is_much or self._cache.touch(start, end):
                return
            self._pending.add(start)
        _workers().submit(_ensure, weakref.ref(self), start, end)

    def ensure(self, start: int, end: int) -> None:
        """Have a requested block on disk. An error is told to who reads the block."""
        try:
            self._cache.ensure(start, end, lambda: self._fetched(start, end))
        except Exception as error:
            logger.debug("%s: bytes %d to %d: %s", self.address, start, end, error)
        finally:
            with self._lock:
                self._pending.discard(start)

    def blocks(self) -> list[tuple[int, int]]:
        """Return where each block starts and ends."""
        assert self._cuts is not None
        return list(zip(self._cuts[:-1].tolist(), self._cuts[1:].tolist()))

    def _block_at(self, offset: int) -> tuple[int, int]:
        assert self._cuts is not None
        number = int(np.searchsorted(self._cuts, offset, side="right")) - 1
        return int(self._cuts[number]), int(self._cuts[number + 1])

    def _open(self, start: int, end: int) -> Any:
        return self._cache.block(start, end, lambda: self._fetched(start, end))

    def _fetched(self, start: int, end: int) -> bytes:
        return stores.read(self.address, start, end, self.version, self.options.patience)


def chunk_starts(starts: Ints, num_bytes: int) -> Ints:
    """Return which of the sorted starts of records begin a chunk: the first in each stretch of so many bytes."""
    stretches = starts // num_bytes
    firsts: Ints = np.flatnonzero(np.append(True, np.diff(stretches) > 0))
    return firsts


def _ensure(file: weakref.ref[RemoteBytes], start: int, end: int) -> None:
    """Fetch a block unless its file has been closed meanwhile."""
    alive = file()
    if alive is not None:
        alive.ensure(start, end)


class _Workers:
    """Threads that do not keep a process from ending, as those of concurrent.futures do."""

    def __init__(self, count: int):
        self._tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for _ in range(count):
            threading.Thread(target=self._run, daemon=True, name="storage").start()

    def submit(self, function: Any, *arguments: Any) -> None:
        self._tasks.put((function, arguments))

    def _run(self) -> None:
        while True:
            function, arguments = self._tasks.get()
            function(*arguments)


_shared: list[_Workers] = []
_shared_lock = threading.Lock()


def _workers() -> _Workers:
    """Return the threads of this process, started at their first use."""
    with _shared_lock:
        if not _shared:
            _shared.append(_Workers(stores.AT_ONCE))
        return _shared[0]
