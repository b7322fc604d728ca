"""Threads that work off the pieces of micro-batches, in the order in which these were handed in.

Owns the queue, the threads and the memory that batches lie in while this process decodes; `worker_processes.py` gives
each thread a process of its own to hand its pieces to.
"""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from typing import Any, Callable, ContextManager, NamedTuple

import numpy as np
import numpy.typing as npt

from mxtrain.data.assembly import Array, Bad, Piece

ALIGNMENT = 64  # of the labels behind the pixels


class Memory(NamedTuple):
    """Bytes that hold a micro-batch; `offset` is where they are in memory that processes share."""

    bytes: npt.NDArray[np.uint8]
    offset: int


class Shape(NamedTuple):
    """The pixels of a micro-batch: (num_samples, channels, height, width), and their type's name."""

    of_data: tuple[int, ...]
    dtype: str

    @property
    def num_bytes(self) -> int:
        """With room for a float32 label for each sample."""
        return self._label_at + 4 * self.of_data[0]

    @property
    def _label_at(self) -> int:
        num_values = 1
        for length in self.of_data:
            num_values *= length
        return -(-num_values * np.dtype(self.dtype).itemsize // ALIGNMENT) * ALIGNMENT

    def arrays(self, memory: npt.NDArray[np.uint8]) -> tuple[Array, Array]:
        """The pixels and the labels that lie there."""
        data: Array = np.ndarray(self.of_data, self.dtype, memory)
        return data, np.ndarray(self.of_data[:1], np.float32, memory, self._label_at)


class Job(NamedTuple):
    piece: Piece
    memory: Memory
    shape: Shape


Run = Callable[[Job], "list[Bad]"]


class WorkerPool:
    """`worker` gives each thread, for as long as it lives, the function that does its jobs."""

    def __init__(self, worker: Callable[[threading.Event], ContextManager[Run]]):
        self._worker = worker
        self._jobs: queue.SimpleQueue[tuple[Job, Future[list[Bad]]] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closed = threading.Event()

    def __len__(self) -> int:
        return len(self._threads)

    def grow(self, count: int) -> None:
        """Add so many workers."""
        for _ in range(count):
            thread = threading.Thread(target=self._work, name="loader", daemon=True)
            self._threads.append(thread)
            thread.start()

    def submit(self, job: Job) -> Future[list[Bad]]:
        """The records that had to be replaced, once the job is done."""
        future: Future[list[Bad]] = Future()
        self._jobs.put((job, future))
        return future

    def close(self) -> None:
        """End all workers, each after the sample that it is at."""
        self._closed.set()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        try:
            with self._worker(self._closed) as run:
                self._serve(run)
        except Exception as error:
            self._serve(_raising(error))  # a worker that cannot start says so at its next job

    def _serve(self, run: Run) -> None:
        while True:
            taken = self._jobs.get()
            if taken is None or self._closed.is_set():
                return
            job, future = taken
            try:
                future.set_result(run(job))
            except Exception as error:
                future.set_exception(error)


def _raising(error: Exception) -> Run:
    def run(job: Job) -> Any:
        raise error

    return run
