"""The input pipeline of training: a loader of micro-batches, and the number of them that each step takes.

Which samples make up a batch is decided in `data/loading/sample_requests.py`, what becomes of a sample in the rest of
`data`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from typing import ContextManager, Iterator, Protocol, cast

from mxtrain.cluster.worker_group import gather, step_group
from mxtrain.data.interfaces import Records
from mxtrain.data.loading import sample_requests
from mxtrain.data.loading.assembly import SampleAssembly
from mxtrain.data.loading.loader import Batch, Loader, Request, loader_options, refuse_too_many_skipped
from mxtrain.data.user.user_datasets import UserBatches
from mxtrain.tasks import registry as tasks
from mxtrain.train.job import TrainingJob


class BatchSource(Protocol):
    """A loader of a run's micro-batches, in the order of their requests: of records, or of a user's DataLoader."""

    skipped: dict[int, str]  # the reason why each bad record was replaced, by its position

    def __iter__(self) -> Iterator[Batch]: ...

    def peek(self, count: int) -> list[Batch]: ...

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

    def peek(self, count: int) -> list[Batch]:
        """Return the next batches, of this step or of the one after it, up to `count`, without taking them."""
        return self.loader.peek(count)


@dataclasses.dataclass(frozen=True)
class InputPipeline:
    """The batches of a run's steps on one worker, in order; each is given back with `release` when it is used."""

    job: TrainingJob
    loader: BatchSource

    def batches(self, step: int) -> StepBatches:
        """Return this worker's batches of the step number `step`, the next one; an epoch's last may be short."""
        return StepBatches(len(self.job.plan.micro_batches(step, self.job.group.rank)), self.loader)

    def release(self, batch: Batch) -> None:
        """Return the memory of a batch to the loader."""
        self.loader.release(batch)

    def gather_bad_records(self, known: tuple[int, ...]) -> tuple[int, ...]:
        """Return the positions of the records replaced so far: `known`, and those that any worker met in this step.

        A collective of the workers that make steps together. DataError where there are more than --skip-bad. Batches
        that are made ahead of their step do not count yet, so that a stop at any step leaves the same state.
        """
        job, most = self.job, self.job.run.data.skip_bad
        if not most:
            return known
        skipped, workers = self.loader.skipped, step_group(job.group, job.run.layout.kvstore)
        for position in map(int, gather(workers, sorted(set(skipped) - set(known)))):
            skipped.setdefault(position, job.train_set.where(position))
        refuse_too_many_skipped(skipped, most)
        return tuple(sorted(skipped))


@contextlib.contextmanager
def open_pipeline(
    job: TrainingJob, steps: range, bad_records: tuple[int, ...] = ()
) -> Iterator[InputPipeline]:
    """Yield the input pipeline of this worker's `steps`; `bad_records` are those that were replaced before."""
    records = job.train_set
    with _open_loader(job, requests_of(job, steps)) as loader:
        loader.skipped.update((position, records.where(position)) for position in bad_records)
        yield InputPipeline(job, loader)


def requests_of(job: TrainingJob, steps: range) -> Iterator[Request]:
    """Return the requests for this worker's micro-batches of `steps`, in order."""
    samples_of = sample_requests.epoch_sampler(job.run, job.train_set)
    return sample_requests.training_requests(samples_of, job.plan, steps, job.group.rank)


def _open_loader(job: TrainingJob, requests: Iterator[Request]) -> ContextManager[BatchSource]:
    run, records, task = job.run, job.train_set, job.task
    if isinstance(records, UserBatches):
        return records.loader(requests, tasks.named(task, task.of_batch))
    reader = tasks.function_of(task, task.reader, True)
    assembly = SampleAssembly(cast(Records, records), reader, task.fields, run.optim.seed, run.data.skip_bad)
    return Loader(assembly, requests, loader_options(run.data))
