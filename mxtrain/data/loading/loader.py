"""The loader: from requests for samples to finished micro-batches, in the order of the requests.

Owns prefetching and the buffers of batches, which are used again. Slices of the next few micro-batches are assembled
by a pool of threads or processes (`worker_pool.py`, `worker_processes.py`). A batch depends on its request and the
seed alone, never on the number or kind of workers. Does not choose samples (`sample_requests.py`), nor transform them
(`assembly.py`, `data/augment/transforms.py`).
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import itertools
import logging
import threading
import time
from concurrent.futures import Future
from typing import Iterable, Iterator, NamedTuple

import numpy as np
import numpy.typing as npt

from mxtrain import config
from mxtrain.config.components import import_path
from mxtrain.core.errors import DataError, UsageError
from mxtrain.core.system import machine
from mxtrain.data import fields
from mxtrain.data.fields import Arrays, Rows
from mxtrain.data.loading import autotune, order, worker_processes
from mxtrain.data.loading.assembly import BatchSlice, SampleAssembly, SkippedRecord, samples_per_task
from mxtrain.data.loading.worker_pool import Buffer, LoaderTask, RunTask, WorkerPool

logger = logging.getLogger(__name__)

# A thread holds Python's lock for about an eighth of its time: more would only queue for it, and for training too.
MAX_THREADS = 8


@dataclasses.dataclass(frozen=True)
class Request:
    """A micro-batch to be made."""

    step: int
    position: int  # of the micro-batch in its step
    epoch: int
    samples: order.Ints  # positions in the records


@dataclasses.dataclass(eq=False)
class Batch:
    """A finished micro-batch: arrays by the names of their fields, valid until it is released."""

    request: Request
    arrays: Arrays
    buffer: Buffer | None = dataclasses.field(repr=False)  # the loader's memory of them; None once released

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.request.samples)


class _InFlight(NamedTuple):
    request: Request
    buffer: Buffer
    rows: Rows
    num_bytes: int
    tasks: list[Future[list[SkippedRecord]]]


class _Made(NamedTuple):
    batch: Batch
    skipped: list[SkippedRecord]  # records that were replaced in it


@dataclasses.dataclass(frozen=True)
class LoaderOptions:
    """Settings for speed and memory. None of them changes a batch."""

    loader: str = "auto"  # threads | processes | auto
    workers: str = "auto"  # a number, or auto: grown while that makes loading faster
    prefetch_bytes: int = 256 << 20
    num_prefetch: int = 8  # micro-batches ahead, at most
    verify: str = "always"  # always | first-epoch | never

    def max_workers(self) -> int:
        """Return the number of workers, with auto the number of usable cores."""
        return machine.usable_cores() if self.workers == "auto" else int(self.workers)

    def uses_processes(self) -> bool:
        """Return whether workers are processes; auto takes threads as long as they do not queue for Python's lock."""
        return self.loader == "processes" or (self.loader == "auto" and self.max_workers() > MAX_THREADS)


def loader_options(data: config.Data) -> LoaderOptions:
    """Return the options that the flags say. The user's own data sets get threads: they may not survive pickling."""
    is_own = any(import_path.is_import_path(source) for source in (data.train, data.val) if source)
    loader = "threads" if is_own else data.loader
    return LoaderOptions(loader, data.loader_workers, data.prefetch_mb << 20, verify=data.verify)


def _uses_processes(assembly: SampleAssembly, options: LoaderOptions) -> bool:
    """Return whether workers are processes; no other process can import the code of a notebook or script, __main__."""
    if options.loader == "auto" and getattr(assembly.records, "prefers_threads", False):
        return False
    if not options.uses_processes() or not worker_processes.is_of_main(assembly.reader):
        return options.uses_processes()
    if options.loader == "processes":
        raise UsageError(
            f"--loader processes cannot send {assembly.reader} to a process: what it is made of is in __main__, this "
            "program or notebook; put it into a module of its own, or use --loader threads"
        )
    return False


class Loader:
    """An iterator of batches, used inside a `with` block; `release` gives a batch's buffer back.

    `assembly` makes the samples, and `requests` are read as far ahead as `options` allow.

    The buffer of a batch that is not released is not used again. MXNet may read the arrays in place, but
    `mx.nd.from_numpy(array, zero_copy=True)` makes its argument read-only: pass `array[:]`, so that the buffer stays
    writable.
    """

    def __init__(
        self,
        assembly: SampleAssembly,
        requests: Iterable[Request],
        options: LoaderOptions = LoaderOptions(),
    ):
        self.skipped: dict[int, str] = {}  # why each bad record was replaced, by its position
        self._assembly = assembly
        self._requests = iter(requests)
        self._announced: collections.deque[Request] = collections.deque()
        self._num_announced = 0  # samples in it
        self._options = options
        self._first_epoch: int | None = None
        self._in_flight: collections.deque[_InFlight] = collections.deque()
        self._ready: collections.deque[_Made] = collections.deque()  # that were looked at, and not taken
        self._free: list[Buffer] = []
        self._closed = False
        self._shared = worker_processes.SharedMemory() if _uses_processes(assembly, options) else None
        self._pool = WorkerPool(self._open_worker)
        self._tuner = autotune.Autotuner(options.max_workers(), grows=options.workers == "auto")
        self._pool.grow(self._tuner.num_workers)

    @property
    def num_workers(self) -> int:
        """The number of workers at this moment."""
        return self._tuner.num_workers

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        made = self._ready.popleft() if self._ready else self._make()
        if made is None:
            raise StopIteration
        self._note_skipped(made.skipped)
        return made.batch

    def peek(self, count: int) -> list[Batch]:
        """Return the next batches, up to `count`, without taking them: bad records in them do not count yet."""
        while len(self._ready) < count:
            made = self._make()
            if made is None:
                break
            self._ready.append(made)
        return [each.batch for each in itertools.islice(self._ready, count)]

    def _make(self) -> _Made | None:
        """Wait for the batch that is next to be made; None after the last one."""
        self._prefetch()
        if not self._in_flight:
            return None
        made = self._in_flight.popleft()
        started = time.monotonic()
        skipped = [each for task in made.tasks for each in task.result()]
        ended = time.monotonic()
        batch = Batch(made.request, fields.cut(self._assembly.fields, made.rows), made.buffer)
        self._pool.grow(self._tuner.workers_to_add(ended - started, ended))
        # The next ones are decoded while this one is consumed, even when only one fits at a time.
        self._prefetch()
        return _Made(batch, skipped)

    def release(self, batch: Batch) -> None:
        """Take a batch's buffer back for another batch; its arrays must not be read any more."""
        if batch.buffer is not None:
            self._free.append(batch.buffer)
            batch.buffer = None

    def close(self) -> None:
        """End all workers; threads finish their current sample."""
        if self._closed:
            return
        self._closed = True
        self._pool.close()
        if self._shared:
            self._shared.close()
        self._in_flight.clear()
        self._ready.clear()
        self._free.clear()

    def _open_worker(self, closed: threading.Event) -> contextlib.AbstractContextManager[RunTask]:
        if self._shared:
            return worker_processes.open_worker(self._assembly, self._shared, closed)
        return contextlib.nullcontext(functools.partial(_run_here, self._assembly, closed))

    def _prefetch(self) -> None:
        while not self._closed and self._has_room():
            self._announce()
            if not self._announced:
                return
            request = self._announced.popleft()
            self._num_announced -= len(request.samples)
            self._start(request)

    def _announce(self) -> None:
        """Let the records know which samples come next: of local files those of one batch, of others of many."""
        lookahead: int = getattr(self._assembly.records, "lookahead", 0)
        while not self._announced or self._num_announced < lookahead:
            request = next(self._requests, None)
            if request is None:
                return
            self._assembly.records.will_need(request.samples)
            self._announced.append(request)
            self._num_announced += len(request.samples)

    def _has_room(self) -> bool:
        """Return whether to start one more batch: always a first one, then while one as large as the last fits."""
        if not self._in_flight:
            return True
        sizes = [made.num_bytes for made in self._in_flight]
        return (
            len(sizes) < self._options.num_prefetch and sum(sizes) + sizes[-1] <= self._options.prefetch_bytes
        )

    def _start(self, request: Request) -> None:
        if self._first_epoch is None:
            self._first_epoch = request.epoch
        verify = self._options.verify == "always" or (
            self._options.verify == "first-epoch" and request.epoch == self._first_epoch
        )
        count, of_sample = len(request.samples), self._assembly.fields
        num_bytes = fields.num_bytes(of_sample, count)
        buffer = self._buffer(num_bytes)
        rows = fields.rows(of_sample, count, buffer.bytes)
        tasks = [
            self._pool.submit(LoaderTask(BatchSlice(samples, start, request.epoch, verify), buffer, count))
            for start, samples in _slices(request.samples, samples_per_task(self._assembly.reader))
        ]
        self._in_flight.append(_InFlight(request, buffer, rows, num_bytes, tasks))

    def _buffer(self, num_bytes: int) -> Buffer:
        """Return a released buffer that is large enough, or a new one."""
        for place, free in enumerate(self._free):
            if len(free.bytes) >= num_bytes:
                return self._free.pop(place)
        return self._shared.allocate(num_bytes) if self._shared else Buffer(np.empty(num_bytes, np.uint8), 0)

    def _note_skipped(self, skipped: list[SkippedRecord]) -> None:
        """Count each bad record once, whatever epochs it comes in; DataError when there are more than --skip-bad."""
        for position, reason in skipped:
            if position not in self.skipped:
                self.skipped[position] = reason
                logger.warning("skipped, the next good record is used instead: %s", reason)
        refuse_too_many_skipped(self.skipped, self._assembly.skip_bad)


def refuse_too_many_skipped(skipped: dict[int, str], skip_bad: int) -> None:
    """Raise DataError where more records were `skipped` (position to reason) than --skip-bad allows."""
    if len(skipped) > skip_bad:
        raise DataError(
            f"{len(skipped)} bad records, more than --skip-bad {skip_bad}; the last one: {list(skipped.values())[-1]}"
        )


def _slices(samples: order.Ints, length: int) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    for start in range(0, len(samples), length):
        yield start, samples[start : start + length]


def _run_here(assembly: SampleAssembly, closed: threading.Event, task: LoaderTask) -> list[SkippedRecord]:
    rows = fields.rows(assembly.fields, task.num_samples, task.buffer.bytes)
    return assembly(task.wanted, rows, closed.is_set)
