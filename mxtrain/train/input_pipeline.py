"""The input pipeline of training: a loader of micro-batches, and the number of them that each step takes.

Which samples make up a batch is decided in `data/sample_requests.py`, what becomes of a sample in the rest of `data`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from typing import ContextManager, Iterator, Protocol, cast

from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup, gather, step_group
from mxtrain.config import Run
from mxtrain.data import pictures, sample_requests
from mxtrain.data.augment import eval_transform, train_transform
from mxtrain.data.loader import Batch, Loader, Request, loader_options, refuse_too_many_skipped
from mxtrain.data.pixels import Transform
from mxtrain.data.records import Dataset, Records
from mxtrain.data.user_datasets import UserBatches
from mxtrain.train.evaluate import resize_of
from mxtrain.train.to_device import dtype_of


class BatchSource(Protocol):
    """A loader of a run's micro-batches, in the order of their requests: of records, or of a user's DataLoader."""

    skipped: dict[int, str]  # the reason why each bad record was replaced, by its position

    def __iter__(self) -> Iterator[Batch]: ...

    def release(self, batch: Batch) -> None: ...


@dataclasses.dataclass(frozen=True)
class StepBatches:
    """A worker's micro-batches of one step; their number is known before they are made."""

    num_batches: int
    loader: BatchSource

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[Batch]:
        return itertools.islice(self.loader, self.num_batches)


@dataclasses.dataclass(frozen=True)
class InputPipeline:
    """The batches of a run's steps on one worker, in order; each is given back with `release` when it is used."""

    run: Run
    records: Dataset
    group: WorkerGroup
    loader: BatchSource

    def batches(self, step: int) -> StepBatches:
        """Return this worker's batches of the step number `step`, the next one; an epoch's last may be short."""
        of_step = sample_requests.step_micro_batches(self.run, len(self.records), step, self.group.rank)
        return StepBatches(len(of_step), self.loader)

    def release(self, batch: Batch) -> None:
        """Return the memory of a batch to the loader."""
        self.loader.release(batch)

    def gather_bad_records(self, known: tuple[int, ...]) -> tuple[int, ...]:
        """Return the positions of the records replaced so far: `known`, and those that any worker met in this step.

        A collective of the workers that make steps together. DataError where there are more than --skip-bad. Batches
        that are made ahead of their step do not count yet, so that a stop at any step leaves the same state.
        """
        if not self.run.data.skip_bad:
            return known
        skipped, workers = self.loader.skipped, step_group(self.group, self.run.layout.kvstore)
        for position in map(int, gather(workers, sorted(set(skipped) - set(known)))):
            skipped.setdefault(position, self.records.where(position))
        refuse_too_many_skipped(skipped, self.run.data.skip_bad)
        return tuple(sorted(skipped))


@contextlib.contextmanager
def open_pipeline(
    run: Run,
    records: Dataset,
    num_classes: int,
    first_step: int,
    num_steps: int,
    group: WorkerGroup = SINGLE_WORKER,
    bad_records: tuple[int, ...] = (),
) -> Iterator[InputPipeline]:
    """Yield the input pipeline of this worker's steps from `first_step` up to, but not including, `num_steps`.

    `bad_records` are the positions of those that were replaced before.
    """
    requests = sample_requests.training_requests(run, records, first_step, num_steps, group.rank)
    with _open_loader(run, records, requests, num_classes) as loader:
        loader.skipped.update((position, records.where(position)) for position in bad_records)
        yield InputPipeline(run, records, group, loader)


def _open_loader(
    run: Run, records: Dataset, requests: Iterator[Request], num_classes: int
) -> ContextManager[BatchSource]:
    size = run.data.image_size
    if isinstance(records, UserBatches):
        of_batch = functools.partial(
            pictures.of_batch, batch_size=run.optim.batch_size, image_size=size, num_classes=num_classes
        )
        return records.loader(requests, of_batch)
    assembly = pictures.picture_assembly(
        *(cast(Records, records), _transform(run), size, run.optim.seed, run.data.skip_bad, dtype_of(run))
    )
    return Loader(assembly, requests, loader_options(run.data))


def _transform(run: Run) -> Transform:
    size = run.data.image_size
    if run.optim.overfit:
        return eval_transform(size, resize_of(run))
    return train_transform(run.data.augment, size)
