"""Sample assembly: the records of a part of a micro-batch, read, decoded and augmented into the batch's arrays.

A row depends on its sample, the epoch and the seed alone. Does not decide which samples are wanted
(`sample_requests.py`), nor which thread or process does the work (`worker_pool.py`, `worker_processes.py`).
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, NamedTuple

import numpy as np
import numpy.typing as npt

from mxtrain.core.errors import DataError, Stop
from mxtrain.data import order
from mxtrain.data.jpeg import BadPicture
from mxtrain.data.records import Records

Array = npt.NDArray[Any]


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
    transform: Callable[[Any, np.random.Generator, Array], None]  # writes a payload's pixels into a row
    seed: int
    skip_bad: int = 0  # the number of bad records in a row that are passed over for the next good one

    def __call__(
        self, rows: BatchSlice, data: Array, label: Array, is_closed: Callable[[], bool] = lambda: False
    ) -> list[SkippedRecord]:
        """Write these rows of the micro-batch `data` and `label`; return the records that had to be replaced.

        Stops early, with rows left unwritten, once `is_closed` returns True.
        """
        skipped: list[SkippedRecord] = []
        for row, sample in enumerate(rows.samples.tolist(), rows.start):
            if is_closed():
                break
            for num_passed in range(self.skip_bad + 1):
                used = (sample + num_passed) % len(self.records)
                rng = order.sample_rng(self.seed, rows.epoch, sample)
                try:
                    label[row] = self._sample(used, rows.verify, rng, data[row])
                    break
                except DataError as error:
                    if num_passed == self.skip_bad:
                        raise
                    skipped.append(SkippedRecord(used, str(error)))
        return skipped

    def _sample(self, position: int, verify: bool, rng: np.random.Generator, out: Array) -> float:
        """Write a sample's pixels to `out`, and return its label."""
        record = self.records.read(position, verify)
        label = record.label
        if not isinstance(label, float) and len(label) == 1:
            label = label[0]  # other tools also write arrays of one
        elif not isinstance(label, float):
            where = self.records.where(position)
            raise DataError(f"{where}: it has {len(label)} labels; pack it with one")
        try:
            self.transform(record.payload, rng, out)
        except Stop:
            raise
        except BadPicture as bad:
            where = self.records.where(position)
            raise DataError(f"{where}: {bad}; pack the file again without it") from None
        except Exception as error:
            raise RuntimeError(f"the transform failed at {self.records.where(position)}") from error
        return float(label)
