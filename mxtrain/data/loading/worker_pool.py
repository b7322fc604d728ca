"""The loader's pool of workers: threads that take tasks from a queue, first come first served.

Owns the queue and the threads. A worker does its tasks in its own thread, or in
a process that the thread drives (`worker_processes.py`).
"""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from typing import Any, Callable, ContextManager, NamedTuple

from mxtrain.data.fields import Memory
from mxtrain.data.loading.assembly import BatchSlice, SkippedRecord


class Buffer(NamedTuple):
    """Memory for a micro-batch; `offset` is its place in the memory that processes share."""

    bytes: Memory
    offset: int


class LoaderTask(NamedTuple):
    """Rows of a micro-batch to be assembled, and the buffer and size of that micro-batch."""

    wanted: BatchSlice
    buffer: Buffer
    num_samples: int


RunTask = Callable[[LoaderTask], "list[SkippedRecord]"]


class WorkerPool:
    """Workers that can be added to, but not taken from.

    `open_worker` is called in each new thread, with the event that is set when the pool is closed. It gives the
    function that does a task, as a context that lasts as long as the thread.
    """

    def __init__(self, open_worker: Callable[[threading.Event], ContextManager[RunTask]]):
        self._open_worker = open_worker
        self._tasks: queue.SimpleQueue[tuple[LoaderTask, Future[list[SkippedRecord]]] | None] = (
            queue.SimpleQueue()
        )
        self._threads: list[threading.Thread] = []
        self._closed = threading.Event()

    def __len__(self) -> int:
        return len(self._threads)

    def grow(self, count: int) -> None:
        """Add `count` workers."""
        for _ in range(count):
            thread = threading.Thread(target=self._work, name="loader", daemon=True)
            self._threads.append(thread)
            thread.start()

    def submit(self, task: LoaderTask) -> Future[list[SkippedRecord]]:
        """Queue a task; the future holds the records that had to be replaced, or the exception of the task."""
        future: Future[list[SkippedRecord]] = Future()
        self._tasks.put((task, future))
        return future

    def close(self) -> None:
        """End all workers, each after its current sample, and wait for them."""
        self._closed.set()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        try:
            with self._open_worker(self._closed) as run_task:
                self._serve(run_task)
        except Exception as error:
            self._serve(_raising(error))  # a worker that cannot start fails its next task

    def _serve(self, run_task: RunTask) -> None:
        while True:
            taken = self._tasks.get()
            if taken is None or self._closed.is_set():
                return
            task, future = taken
            try:
                future.set_result(run_task(task))
            except Exception as error:
                future.set_exception(error)


def _raising(error: Exception) -> RunTask:
    def run_task(task: LoaderTask) -> Any:
        raise error

    return run_task
