"""Sample assembly: the records of a part of a micro-batch, read and made into rows of its arrays.

A row depends on its sample, the epoch and the seed alone. Does not decide which samples are wanted
(`sample_requests.py`), nor which thread or process does the work (`worker_pool.py`, `worker_processes.py`).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, Mapping, NamedTuple, Protocol, Sequence, TypeVar, runtime_checkable

import numpy as np

from mxtrain.core.errors import DataError, Stop
from mxtrain.data.fields import Arrays, BadSample, Field, Rows
from mxtrain.data.interfaces import Record, Records
from mxtrain.data.loading import order

# From a record, the randomness of its sample, and the sample's row, to the values of all fields. A reader may write
# what does not vary in length into the row, which saves a copy, and returns it as it is there.
SampleReader = Callable[[Record, np.random.Generator, Arrays], Mapping[str, Any]]


Made = TypeVar("Made")


class Draw(Protocol):
    """A function that draws a record and returns what another one makes of it."""

    def __call__(self, make: Callable[[Record], Made]) -> Made: ...


SAMPLES_PER_TASK = 8  # with one sample a task, the queue makes loading 8 x 8 digits a third slower


@runtime_checkable
class ManyReader(Protocol):
    """A reader that can make many samples at once too, to the same bits, as none of them needs any randomness."""

    samples_per_task: int

    def write_many(
        self, records: Records, positions: order.Ints, rows: Rows, start: int, verify: bool
    ) -> bool:
        """Write samples into the rows from `start` on; False where they have to be read one by one, as bad ones do."""
        ...


@runtime_checkable
class MixingReader(Protocol):
    """A reader that may put parts of other samples into one, which are drawn by the randomness of that sample."""

    def mixed(self, record: Record, rng: np.random.Generator, row: Arrays, draw: Draw) -> Mapping[str, Any]:
        """Return the values of all fields; `draw` returns what a function makes of another record, any of the set."""
        ...


def samples_per_task(reader: SampleReader) -> int:
    """Return how many samples a worker makes before it looks for the next task."""
    return reader.samples_per_task if isinstance(reader, ManyReader) else SAMPLES_PER_TASK


class BatchSlice(NamedTuple):
    """Some consecutive rows of a micro-batch, the first of which is `start`."""

    samples: order.Ints  # positions in the records, one for each row
    start: int
    epoch: int
    verify: bool  # compare the records with their checksums


class SkippedRecord(NamedTuple):
    """A record that could not be used and was replaced, with the reason in one line that names it."""

    position: int
    reason: str


@dataclasses.dataclass(frozen=True)
class SampleAssembly:
    """The function from samples to rows. A picklable value: worker processes get a copy."""

    records: Records
    reader: SampleReader
    fields: Sequence[Field]
    seed: int
    skip_bad: int = 0  # the number of bad records in a row that are passed over for the next good one

    def __call__(
        self, wanted: BatchSlice, rows: Rows, is_closed: Callable[[], bool] = lambda: False
    ) -> list[SkippedRecord]:
        """Write the wanted rows of a micro-batch; return the records that had to be replaced.

        Stops early, with rows left unwritten, once `is_closed` returns True.
        """
        if isinstance(self.reader, ManyReader) and self.reader.write_many(
            self.records, wanted.samples, rows, wanted.start, wanted.verify
        ):
            return []
        skipped: list[SkippedRecord] = []
        for row, sample in enumerate(wanted.samples.tolist(), wanted.start):
            if is_closed():
                break
            for num_passed in range(self.skip_bad + 1):
                used = (sample + num_passed) % len(self.records) if num_passed else sample
                rng = order.sample_rng(self.seed, wanted.epoch, sample)
                try:
                    self._write(wanted, self.records.read(used, wanted.verify), used, rng, rows, row)
                    break
                except DataError as error:
                    if num_passed == self.skip_bad:
                        raise
                    skipped.append(SkippedRecord(used, str(error)))
        return skipped

    def _write(
        self,
        wanted: BatchSlice,
        record: Record,
        position: int,
        rng: np.random.Generator,
        rows: Rows,
        row: int,
    ) -> None:
        """Write the sample that the record at this position makes into its row."""
        of_sample = {name: array[row, ...] for name, array in rows.arrays.items()}
        try:
            if isinstance(self.reader, MixingReader):
                values = self.reader.mixed(
                    record, rng, of_sample, functools.partial(self._drawn, wanted, rng)
                )
            else:
                values = self.reader(record, rng, of_sample)
            if values is not of_sample:
                rows.write(self.fields, row, values)
        except Stop:
            raise
        except BadSample as bad:
            raise DataError(f"{self.records.where(position)}: {bad}") from None
        except Exception as error:
            raise RuntimeError(f"the transform failed at {self.records.where(position)}") from error

    def _drawn(self, wanted: BatchSlice, rng: np.random.Generator, make: Callable[[Record], Made]) -> Made:
        """Return what is made of a drawn record; where it is bad, of the next, as many as may be passed over."""
        position = int(rng.integers(len(self.records)))
        for num_passed in range(self.skip_bad + 1):
            used = (position + num_passed) % len(self.records)
            try:
                return make(self.records.read(used, wanted.verify))
            except (DataError, BadSample):
                if num_passed == self.skip_bad:
                    raise
        raise AssertionError("the last one was made, or raised")
