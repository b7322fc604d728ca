"""Which samples of the training set an epoch visits: `--sampling` and `--overfit`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import numpy as np

from mxtrain.config import Run
from mxtrain.data import order
from mxtrain.data.order import Ints
from mxtrain.data.recordio import Floats
from mxtrain.data.records import Record


def of_run(run: Run, records: Any) -> Callable[[int], Ints]:
    """From an epoch to its samples, in their order. With `--overfit` an epoch is as long, of few batches repeated."""
    optim = run.optim
    labels = records.labels() if run.data.sampling == "balanced" else None

    def of_epoch(epoch: int) -> Ints:
        if labels is None:
            return order.epoch_order(len(records), optim.seed, epoch)
        return order.balanced_order(labels, optim.seed, epoch)

    if not optim.overfit:
        return of_epoch
    few = of_epoch(0)[: optim.overfit * optim.batch_size]
    return lambda epoch: np.resize(few, len(records))


class Overfitted:
    """The samples that `--overfit` trains on, each once, with the face of `Records`: what such a run is judged by."""

    def __init__(self, run: Run, records: Any):
        samples = of_run(run, records)(0)
        self._records, self._samples = records, np.unique(samples)
        self.path: Path = records.path
        self.class_names: list[str] | None = records.class_names
        self.descriptors: tuple[int, ...] = records.descriptors

    def __len__(self) -> int:
        return len(self._samples)

    def read(self, position: int, verify: bool = True) -> Record:
        record: Record = self._records.read(int(self._samples[position]), verify)
        return record

    def where(self, position: int) -> str:
        return str(self._records.where(int(self._samples[position])))

    def will_need(self, positions: Ints) -> None:
        self._records.will_need(self._samples[positions])

    def labels(self) -> Floats:
        labels: Floats = self._records.labels()[self._samples]
        return labels
