"""One piece of a micro-batch: its records read, decoded and augmented into the rows of arrays that are handed in.

What a row holds depends on its sample, the epoch and the seed alone. Who runs a piece is `worker_pool.py`'s and
`worker_processes.py`'s; which samples are wanted when is `order.py`'s.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, NamedTuple

import numpy as np
import numpy.typing as npt

from mxtrain.core.errors import DataError, Stop
from mxtrain.data import order
from mxtrain.data.jpeg import BadPicture

Array = npt.NDArray[Any]


class Piece(NamedTuple):
    """The rows from `start` on of a micro-batch: `samples` are positions in the records."""

    samples: order.Ints
    start: int
    epoch: int
    verify: bool  # hold the records against their checksums


class Bad(NamedTuple):
    """A record that could not be used, and why, in one line that names it."""

    sample: int
    reason: str


@dataclasses.dataclass(frozen=True)
class SampleAssembly:
    """What is done to every piece."""

    records: Any  # Records, or what else has its `read` and `where`
    transform: Callable[[Any, np.random.Generator, Array], None]
    seed: int
    skip_bad: int = 0  # so many bad records in a row are passed over for the next good one

    def __call__(
        self, piece: Piece, data: Array, label: Array, is_closed: Callable[[], bool] = lambda: False
    ) -> list[Bad]:
        """Fill the piece's rows of the micro-batch; the records that had to be replaced."""
        bad: list[Bad] = []
        for row, sample in enumerate(piece.samples.tolist(), piece.start):
            if is_closed():
                break
            for tried in range(self.skip_bad + 1):
                used = (sample + tried) % len(self.records)
                rng = order.sample_rng(self.seed, piece.epoch, sample)
                try:
                    label[row] = self._sample(used, piece.verify, rng, data[row])
                    break
                except DataError as error:
                    if tried == self.skip_bad:
                        raise
                    bad.append(Bad(used, str(error)))
        return bad

    def _sample(self, sample: int, verify: bool, rng: np.random.Generator, out: Array) -> float:
        """Write a sample's pixels; its label."""
        record = self.records.read(sample, verify)
        label = record.label
        if not isinstance(label, float) and len(label) == 1:
            label = label[0]  # other tools also write arrays of one
        elif not isinstance(label, float):
            where = self.records.where(sample)
            raise DataError(f"{where}: it has {len(label)} labels; pack it with one")
        try:
            self.transform(record.payload, rng, out)
        except Stop:
            raise
        except BadPicture as bad:
            where = self.records.where(sample)
            raise DataError(f"{where}: {bad}; pack the file again without it") from None
        except Exception as error:
            raise RuntimeError(f"the transform failed at {self.records.where(sample)}") from error
        return float(label)
