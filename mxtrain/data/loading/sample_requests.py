"""Requests for samples: which samples each micro-batch of a training run, or of an evaluation, is made of.

Puts together the order of an epoch (`order.py`, `--sampling`, `--overfit`) and the layout of a step over workers
(`config/batch_plan.py`). Does not read samples: the loader serves the requests.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Callable, Iterator

import numpy as np

from mxtrain.config import Run, batch_plan
from mxtrain.data.interfaces import Dataset, Record, Records
from mxtrain.data.loading import order
from mxtrain.data.loading.loader import Request
from mxtrain.data.loading.order import Ints
from mxtrain.data.records.recordio import Floats
from mxtrain.data.user.streams import Stream


def epoch_sampler(run: Run, dataset: Dataset) -> Callable[[int], Ints]:
    """Return the function from an epoch to its samples, as positions in the data set, in the order of --sampling.

    With --overfit an epoch keeps its length, and repeats its first few batches. Samples of a stream come as they are.
    """
    optim = run.optim
    if isinstance(dataset, Stream):
        return lambda epoch: np.arange(len(dataset)) + epoch * len(dataset)
    labels = dataset.labels().ravel() if run.data.sampling == "balanced" else None

    def of_epoch(epoch: int) -> Ints:
        if labels is None:
            return order.epoch_order(len(dataset), optim.seed, epoch)
        return order.balanced_order(labels, optim.seed, epoch)

    if not optim.overfit:
        return of_epoch
    few = of_epoch(0)[: optim.overfit * optim.batch_size]
    return lambda epoch: np.resize(few, len(dataset))


def step_micro_batches(run: Run, num_samples: int, step: int, rank: int = 0) -> dict[int, range]:
    """Return a worker's micro-batches of a step: from the position of each in the step to its slice of the epoch.

    `num_samples` is the length of an epoch. A slice counts in the order of the epoch, not in the data set.
    """
    batch_size = run.optim.batch_size
    step_in_epoch = step % order.steps_per_epoch(num_samples, batch_size)
    of_step = order.step_samples(range(num_samples), step_in_epoch, batch_size)
    slices = order.micro_batches(of_step, batch_plan.of_run(run).micro_batch)
    return {position: slices[position] for position in batch_plan.positions(run, len(slices), rank)}


def training_requests(
    run: Run, dataset: Dataset, first_step: int, num_steps: int, rank: int = 0
) -> Iterator[Request]:
    """Yield the requests for a worker's micro-batches of the steps from `first_step` up to `num_steps`, in order."""
    steps_per_epoch = order.steps_per_epoch(len(dataset), run.optim.batch_size)
    samples_of = epoch_sampler(run, dataset)
    for epoch, steps in itertools.groupby(
        range(first_step, num_steps), key=lambda step: step // steps_per_epoch
    ):
        samples = samples_of(epoch)
        for step in steps:
            for position, chosen in step_micro_batches(run, len(dataset), step, rank).items():
                yield Request(step, position, epoch, samples[chosen.start : chosen.stop])


def evaluation_requests(
    num_samples: int, micro_batch: int, rank: int = 0, world_size: int = 1
) -> list[Request]:
    """Return the requests for a worker's part of all samples, each once over all workers, in stored order."""
    batches = order.micro_batches(np.arange(num_samples), micro_batch)[rank::world_size]
    return [
        Request(step=0, position=position, epoch=0, samples=batch) for position, batch in enumerate(batches)
    ]


def positions(records: Records) -> Ints:
    """Return the position of each sample in what --val names, or with --overfit in what --train does."""
    return records.samples if isinstance(records, OverfitRecords) else np.arange(len(records))


class OverfitRecords:
    """The samples that a run with --overfit trains on, each once: `Records` for its evaluations."""

    def __init__(self, run: Run, records: Records):
        self._records, self.samples = records, np.unique(epoch_sampler(run, records)(0))
        self.path: Path = records.path
        self.class_names: list[str] | None = records.class_names
        self.files: list[Path] = []
        self.keys: Ints = records.keys[self.samples]
        self.descriptors: tuple[int, ...] = records.descriptors

    def __len__(self) -> int:
        return len(self.samples)

    def read(self, position: int, verify: bool = True) -> Record:
        return self._records.read(int(self.samples[position]), verify)

    def where(self, position: int) -> str:
        return self._records.where(int(self.samples[position]))

    def will_need(self, positions: Ints) -> None:
        self._records.will_need(self.samples[positions])

    def labels(self) -> Floats:
        labels: Floats = self._records.labels()[self.samples]
        return labels
