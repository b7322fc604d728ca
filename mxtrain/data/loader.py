"""Requests for samples in, finished micro-batches out, in the order they were asked for.

A few micro-batches ahead are filled in pieces, by threads or processes (`worker_pool.py`, `worker_processes.py`), in
memory that is used again. What a batch holds depends on its request and the seed alone (`assembly.py`), never on how
many work, in which way, or who was first. Which samples are wanted when is `order.py`'s, what is done to one
`augment.py`'s.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import logging
import threading
import time
from concurrent.futures import Future
from typing import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from mxtrain import config
from mxtrain.config import import_path
from mxtrain.core import machine
from mxtrain.core.errors import DataError
from mxtrain.data import order, tuning, worker_processes
from mxtrain.data.assembly import Array, Bad, Piece, SampleAssembly
from mxtrain.data.worker_pool import Job, Memory, Run, Shape, WorkerPool

logger = logging.getLogger(__name__)

# With one sample a piece, handing them out costs a third more on 8 x 8 digits.
SAMPLES_PER_PIECE = 8
# A thread holds Python's lock for about an eighth of its time: more would only queue for it, and for training too.
MAX_THREADS = 8


@dataclasses.dataclass(frozen=True)
class Request:
    """One micro-batch: `samples` are positions in the records."""

    step: int
    position: int
    epoch: int
    samples: order.Ints


@dataclasses.dataclass(eq=False)
class Batch:
    """What a request asked for: `data` (n, *image_shape) and `label` (n,), valid until it is released."""

    request: Request
    data: Array
    label: Array
    memory: Memory | None = dataclasses.field(repr=False)  # the loader's, behind both; None once released


@dataclasses.dataclass(frozen=True)
class LoaderOptions:
    """How batches are made. None of it moves what they hold."""

    kind: str = "auto"  # threads | processes | auto
    workers: str = "auto"  # how many, or auto: as many as are of use
    prefetch_bytes: int = 256 << 20
    num_prefetch: int = 8
    verify: str = "always"  # always | first-epoch | never

    def most_workers(self) -> int:
        return machine.usable_cores() if self.workers == "auto" else int(self.workers)

    def in_processes(self) -> bool:
        return self.kind == "processes" or (self.kind == "auto" and self.most_workers() > MAX_THREADS)


def way_of(data: config.Data) -> LoaderOptions:
    """The user's own datasets stay in this process: what they hold may not survive a copy."""
    is_own = any(import_path.is_import_path(source) for source in (data.train, data.val) if source)
    kind = "threads" if is_own else data.loader
    return LoaderOptions(kind, data.loader_workers, data.prefetch_mb << 20, verify=data.verify)


class Loader:
    """Iterate inside a `with` block, and give each batch back with `release` when its arrays are not needed.

    The memory of a batch that is not released is not used again. MXNet may read the arrays in place, but
    `mx.nd.from_numpy(array, zero_copy=True)` makes its argument read-only: hand it `array[:]`, so that the memory
    stays writable.
    """

    def __init__(
        self,
        fill: SampleAssembly,
        image_shape: tuple[int, ...],
        requests: Iterable[Request],
        way: LoaderOptions = LoaderOptions(),
        dtype: str = "float32",
    ):
        self.skipped: dict[int, str] = {}  # position of each bad record that was replaced, and why
        self._fill = fill
        self._image_shape = image_shape
        self._requests = iter(requests)
        self._way = way
        self._dtype = dtype
        self._first_epoch: int | None = None
        self._under_way: collections.deque[tuple[Batch, list[Future[list[Bad]]]]] = collections.deque()
        self._free: list[Memory] = []
        self._closed = False
        self._shared = worker_processes.SharedMemory() if way.in_processes() else None
        self._crew = WorkerPool(self._worker)
        self._tuner = tuning.Tuner(way.most_workers(), grows=way.workers == "auto")
        self._crew.grow(self._tuner.num_workers)

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        self._look_ahead()
        if not self._under_way:
            raise StopIteration
        batch, pieces = self._under_way.popleft()
        started = time.monotonic()
        for piece in pieces:
            self._note(piece.result())
        ended = time.monotonic()
        self._crew.grow(self._tuner.more(ended - started, ended))
        # The next ones are decoded while this one is consumed, even when only one fits at a time.
        self._look_ahead()
        return batch

    def release(self, batch: Batch) -> None:
        """The batch's arrays may be written again: nobody reads them any more."""
        if batch.memory is not None:
            self._free.append(batch.memory)
            batch.memory = None

    def close(self) -> None:
        """End all workers, threads after the sample that they are at."""
        if self._closed:
            return
        self._closed = True
        self._crew.close()
        if self._shared:
            self._shared.close()
        self._under_way.clear()
        self._free.clear()

    def _worker(self, closed: threading.Event) -> contextlib.AbstractContextManager[Run]:
        if self._shared:
            return worker_processes.worker(self._fill, self._shared, closed)
        return contextlib.nullcontext(functools.partial(_run_here, self._fill, closed))

    def _look_ahead(self) -> None:
        while not self._closed and self._has_room():
            request = next(self._requests, None)
            if request is None:
                return
            self._start(request)

    def _has_room(self) -> bool:
        """At least one batch is under way, and another while one as large as the last would still fit."""
        if not self._under_way:
            return True
        sizes = [batch.data.nbytes for batch, _ in self._under_way]
        return len(sizes) < self._way.num_prefetch and sum(sizes) + sizes[-1] <= self._way.prefetch_bytes

    def _start(self, request: Request) -> None:
        self._fill.records.will_need(request.samples)
        if self._first_epoch is None:
            self._first_epoch = request.epoch
        verify = self._way.verify == "always" or (
            self._way.verify == "first-epoch" and request.epoch == self._first_epoch
        )
        shape = Shape((len(request.samples), *self._image_shape), self._dtype)
        memory = self._memory(shape.num_bytes)
        pieces = [
            self._crew.submit(Job(Piece(samples, start, request.epoch, verify), memory, shape))
            for start, samples in _cut_up(request.samples)
        ]
        self._under_way.append((Batch(request, *shape.arrays(memory.bytes), memory), pieces))

    def _memory(self, num_bytes: int) -> Memory:
        """Memory that was released and is large enough, or new one."""
        for place, free in enumerate(self._free):
            if len(free.bytes) >= num_bytes:
                return self._free.pop(place)
        return self._shared.block(num_bytes) if self._shared else Memory(np.empty(num_bytes, np.uint8), 0)

    def _note(self, replaced: list[Bad]) -> None:
        """Count bad records once each, whatever epoch they come in; DataError when there are more than may be."""
        for sample, reason in replaced:
            if sample not in self.skipped:
                self.skipped[sample] = reason
                logger.warning("skipped, the next good record is used instead: %s", reason)
        refuse_too_many(self.skipped, self._fill.skip_bad)


def refuse_too_many(skipped: dict[int, str], skip_bad: int) -> None:
    if len(skipped) > skip_bad:
        raise DataError(
            f"{len(skipped)} bad records, more than --skip-bad {skip_bad}; the last one: {list(skipped.values())[-1]}"
        )


def _cut_up(samples: order.Ints) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    for start in range(0, len(samples), SAMPLES_PER_PIECE):
        yield start, samples[start : start + SAMPLES_PER_PIECE]


def _run_here(fill: SampleAssembly, closed: threading.Event, job: Job) -> list[Bad]:
    return fill(job.piece, *job.shape.arrays(job.memory.bytes), closed.is_set)
