"""Requests for samples: which samples each micro-batch of a training run, or of an evaluation, is made of.

Puts together the order of an epoch (`order.py`, `--sampling`, `--overfit`) and the plan of a run's steps over workers
(`run_plan.py`). Does not read samples: the loader serves the requests.
"""

from __future__ import annotations

import itertools
from pathlib import Path, PurePath
from typing import Callable, Iterator, cast

import numpy as np

from mxtrain.config import Run
from mxtrain.config.values import orders
from mxtrain.core.errors import UsageError
from mxtrain.data.interfaces import Dataset, Record, Records
from mxtrain.data.loading import order
from mxtrain.data.loading.loader import Request
from mxtrain.data.loading.order import Ints
from mxtrain.data.loading.run_plan import RunPlan
from mxtrain.data.records.recordio import Floats
from mxtrain.data.user.streams import Stream

CHUNK_MB = 8  # of --order windows: that much of a file


def epoch_sampler(run: Run, dataset: Dataset) -> Callable[[int], Ints]:
    """Return the function from an epoch to its samples, as positions in the data set, in the order of --sampling.

    With --overfit an epoch keeps its length, and repeats its first few batches. Samples of a stream come as they are.
    """
    optim = run.optim
    if isinstance(dataset, Stream):
        return lambda epoch: np.arange(len(dataset)) + epoch * len(dataset)
    labels = dataset.labels().ravel() if run.data.sampling == "balanced" else None

    window = orders.window_mb(run.data.order)
    chunks = _chunks(run, dataset) if window else None
    later = len(dataset) if getattr(dataset, "has_epochs", False) else 0

    def of_epoch(epoch: int) -> Ints:
        if chunks is not None:
            return order.windowed_order(chunks, max(1, window // CHUNK_MB), optim.seed, epoch)
        if labels is None:
            return order.epoch_order(len(dataset), optim.seed, epoch) + epoch * later
        return order.balanced_order(labels, optim.seed, epoch) + epoch * later

    if not optim.overfit:
        return of_epoch
    few = of_epoch(0)[: optim.overfit * optim.batch_size]
    return lambda epoch: np.resize(few, len(dataset))


def _chunks(run: Run, dataset: Dataset) -> Ints:
    """Return the number of the chunk of each sample; UsageError where the samples do not lie in files in an order."""
    chunks: Callable[[int], Ints] | None = getattr(dataset, "chunks", None)
    if chunks is None:
        raise UsageError(
            f"--order {run.data.order}: {dataset.path} has no samples in chunks of .rec files; give --order permutation"
        )
    return chunks(CHUNK_MB << 20)


def training_requests(
    samples_of: Callable[[int], Ints], plan: RunPlan, steps: range, rank: int = 0
) -> Iterator[Request]:
    """Yield the requests for a worker's micro-batches of `steps`, in order.

    `samples_of` is the `epoch_sampler` of the run that `plan` is of.
    """
    for epoch, of_epoch in itertools.groupby(steps, key=lambda step: plan.length.epoch_of(step + 1) - 1):
        samples = samples_of(epoch)
        for step in of_epoch:
            for position, chosen in plan.micro_batches(step, rank).items():
                yield Request(step, position, epoch, samples[chosen.start : chosen.stop])


def announce(records: Dataset, requests: Iterator[Request]) -> None:
    """Have the first samples of files in a store requested, so that they come while a run loads what else it needs."""
    count, lookahead = 0, getattr(records, "lookahead", 0)
    while count < lookahead and (request := next(requests, None)) is not None:
        cast(Records, records).will_need(request.samples)
        count += len(request.samples)


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
        self.path: PurePath = records.path
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
