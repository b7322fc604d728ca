"""Which samples are visited when: by an epoch (`--sampling`, `--overfit`), a micro-batch, an evaluation."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np

from mxtrain.config import Run, layout
from mxtrain.data import order
from mxtrain.data.loader import Request
from mxtrain.data.order import Ints
from mxtrain.data.recordio import Floats
from mxtrain.data.records import Record


def of_run(run: Run, records: Any) -> Callable[[int], Ints]:
    """From an epoch to its samples, in their order. With `--overfit` an epoch is as long, of few batches repeated."""
    optim = run.optim
    labels = records.labels().ravel() if run.data.sampling == "balanced" else None

    def of_epoch(epoch: int) -> Ints:
        if labels is None:
            return order.epoch_order(len(records), optim.seed, epoch)
        return order.balanced_order(labels, optim.seed, epoch)

    if not optim.overfit:
        return of_epoch
    few = of_epoch(0)[: optim.overfit * optim.batch_size]
    return lambda epoch: np.resize(few, len(records))


def share(run: Run, num_samples: int, step: int, worker: int = 0) -> dict[int, range]:
    """A worker's micro-batches of a step, by their positions in it: their places in the order of the epoch."""
    batch_size = run.optim.batch_size
    step_in_epoch = step % order.steps_per_epoch(num_samples, batch_size)
    of_step = order.step_samples(range(num_samples), step_in_epoch, batch_size)
    parts = order.micro_batches(of_step, layout.batch_plan(run).micro_batch)
    return {position: parts[position] for position in layout.positions(run, len(parts), worker)}


def requests(run: Run, records: Any, first_step: int, num_steps: int, worker: int = 0) -> Iterator[Request]:
    """A worker's micro-batches from `first_step` on, in order; going on in the middle of an epoch is slicing."""
    steps_per_epoch = order.steps_per_epoch(len(records), run.optim.batch_size)
    samples_of = of_run(run, records)
    for epoch, steps in itertools.groupby(
        range(first_step, num_steps), key=lambda step: step // steps_per_epoch
    ):
        samples = samples_of(epoch)
        for step in steps:
            for position, places in share(run, len(records), step, worker).items():
                yield Request(step, position, epoch, samples[places.start : places.stop])


def once(num_samples: int, at_once: int, worker: int = 0, num_workers: int = 1) -> list[Request]:
    """A worker's share of every sample once, in the order of the records, as an evaluation wants them."""
    parts = order.micro_batches(np.arange(num_samples), at_once)[worker::num_workers]
    return [Request(step=0, position=place, epoch=0, samples=part) for place, part in enumerate(parts)]


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
