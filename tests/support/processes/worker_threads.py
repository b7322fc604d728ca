"""Workers of a run as threads of the tests' process, of which one computes at a time: MXNet shares what is global."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, TypeVar

import numpy as np

from mxtrain.cluster.worker_group import SingleWorker

DEADLINE_SECONDS = 60
Found = TypeVar("Found")


class WorkerThread(SingleWorker):
    """One of them, which adds as the coordinator does: in the order of ranks."""

    def __init__(self, rank: int, together: _Together):
        self.rank, self.world_size = rank, together.barrier.parties  # type: ignore[misc]
        self._together = together

    def sum(self, values: Any) -> Any:
        own, together = np.asarray(values, np.float64), self._together
        together.values[self.rank] = own
        together.turn.release()
        together.barrier.wait(DEADLINE_SECONDS)
        shapes = {array.shape for array in together.values.values()}
        assert len(shapes) == 1, f"workers are in different sums: {shapes}"
        total = np.add.reduce([together.values[rank] for rank in range(self.world_size)])
        together.barrier.wait(DEADLINE_SECONDS)
        together.turn.acquire()
        return total


class _Together:
    def __init__(self, count: int):
        self.barrier, self.turn = threading.Barrier(count), threading.Lock()
        self.values: dict[int, Any] = {}


def on_workers(count: int, function: Callable[[WorkerThread], Found]) -> list[Found]:
    """Return what `function` gives on each of so many workers, by rank."""
    together = _Together(count)

    def work(rank: int) -> Found:
        with together.turn:
            try:
                return function(WorkerThread(rank, together))
            except BaseException:
                together.barrier.abort()
                raise

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(work, range(count)))
