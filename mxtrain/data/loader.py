"""Requests for samples in, finished micro-batches out, in the order they were asked for.

Threads decode the samples of a few micro-batches ahead into buffers that are used again. Decoding leaves Python's
lock, so threads keep all cores busy. What a batch holds depends on its request and the seed alone, never on how
many threads there are or which was first. Which samples are wanted when is `order.py`'s, what is done to one
`augment.py`'s.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from mxtrain import machine
from mxtrain.data import order
from mxtrain.data.jpeg import BadPicture
from mxtrain.data.records import Record, Records
from mxtrain.errors import DataError, Stop

Floats = npt.NDArray[np.float32]

# One piece of work for a thread: with one sample a piece, handing them out costs a third more on 8 x 8 digits.
SAMPLES_PER_PIECE = 8
# Each thread holds Python's lock for about a twentieth of its time: many more would only queue for it.
MAX_AUTO_WORKERS = 16


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
    data: Floats
    label: Floats
    storage: Floats | None = dataclasses.field(repr=False)  # the loader's, behind `data`; None once released


def num_workers(text: str) -> int:
    """How many threads `--loader-workers` means: a number, or for `auto` the cores this process may use."""
    return min(machine.usable_cores(), MAX_AUTO_WORKERS) if text == "auto" else int(text)


class Loader:
    """Iterate inside a `with` block, and give each batch back with `release` when its arrays are not needed.

    A batch that is never released is only not reused: its memory goes when the batch does. MXNet may read the
    arrays in place, but `mx.nd.from_numpy(array, zero_copy=True)` makes its argument read-only: hand it
    `array[:]`, so that the buffer stays writable.
    """

    def __init__(
        self,
        records: Records,
        transform: Callable[[Any, np.random.Generator, Floats], None],
        image_shape: tuple[int, ...],
        requests: Iterable[Request],
        seed: int,
        num_workers: int,
        prefetch_bytes: int = 256 << 20,
        num_prefetch: int = 8,
    ):
        self._records = records
        self._transform = transform
        self._image_shape = image_shape
        self._requests = iter(requests)
        self._seed = seed
        self._prefetch_bytes = prefetch_bytes
        self._num_prefetch = num_prefetch
        self._threads = ThreadPoolExecutor(num_workers, "loader")
        self._under_way: collections.deque[tuple[Batch, list[Future[None]]]] = collections.deque()
        self._free: list[Floats] = []
        self._closed = False

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
        for piece in pieces:
            piece.result()
        # The next ones are decoded while this one is consumed, even when only one fits at a time.
        self._look_ahead()
        return batch

    def release(self, batch: Batch) -> None:
        """The batch's arrays may be written again: nobody reads them any more."""
        if batch.storage is not None:
            self._free.append(batch.storage)
            batch.storage = None

    def close(self) -> None:
        """End all threads, each after the sample that it is at."""
        self._closed = True
        self._threads.shutdown(wait=True)
        self._under_way.clear()
        self._free.clear()

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
        return len(sizes) < self._num_prefetch and sum(sizes) + sizes[-1] <= self._prefetch_bytes

    def _start(self, request: Request) -> None:
        num_samples = len(request.samples)
        shape = (num_samples, *self._image_shape)
        storage = self._storage(math.prod(shape))
        data = storage[: math.prod(shape)].reshape(shape)
        batch = Batch(request, data, np.empty(num_samples, np.float32), storage)
        pieces = [
            self._threads.submit(self._fill, batch, start, min(start + SAMPLES_PER_PIECE, num_samples))
            for start in range(0, num_samples, SAMPLES_PER_PIECE)
        ]
        self._under_way.append((batch, pieces))

    def _storage(self, num_values: int) -> Floats:
        """A released buffer that is large enough, or a new one."""
        for place, free in enumerate(self._free):
            if len(free) >= num_values:
                return self._free.pop(place)
        return np.empty(num_values, np.float32)

    def _fill(self, batch: Batch, start: int, stop: int) -> None:
        request = batch.request
        for place in range(start, stop):
            if self._closed:
                return
            sample = int(request.samples[place])
            rng = order.sample_rng(self._seed, request.epoch, sample)
            record = self._records.read(sample)
            try:
                batch.label[place] = self._single_label(record, sample)
                self._transform(record.payload, rng, batch.data[place])
            except Stop:
                raise
            except BadPicture as bad:
                raise DataError(f"{self._where(sample)}: {bad}; pack the file again without it") from None
            except Exception as error:
                raise RuntimeError(f"the transform failed at {self._where(sample)}") from error

    def _single_label(self, record: Record, sample: int) -> float:
        if isinstance(record.label, float):
            return record.label
        raise DataError(f"{self._where(sample)}: it has {len(record.label)} labels; pack it with one")

    def _where(self, sample: int) -> str:
        return f"{self._records.path}: record {sample} (key {self._records.keys[sample]})"
