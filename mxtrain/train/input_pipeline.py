"""What a run's steps are fed: the loader that makes their micro-batches, and how many each step takes.

Which samples make up each is `data/sample_requests.py`'s, what happens to one of them the rest of `data`'s.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from typing import Any, Iterator

from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup, gather, step_group
from mxtrain.config import Run
from mxtrain.data import sample_requests
from mxtrain.data.assembly import SampleAssembly
from mxtrain.data.augment import eval_transform, train_transform
from mxtrain.data.loader import Loader, Request, loader_options, refuse_too_many_skipped
from mxtrain.data.pixels import Transform
from mxtrain.data.user_datasets import UserBatches
from mxtrain.train.evaluate import resize_of
from mxtrain.train.to_device import dtype_of


@dataclasses.dataclass(frozen=True)
class Share:
    """A worker's micro-batches of one step, as many as known before they are made."""

    num_batches: int
    loader: Any

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(self.loader, self.num_batches)


@dataclasses.dataclass(frozen=True)
class InputPipeline:
    """The batches of a run's steps, in order; each is given back with `release` when it is used."""

    run: Run
    records: Any
    group: WorkerGroup
    loader: Any

    def batches(self, step: int) -> Share:
        """This worker's of the next step, which is number `step`; the last one of an epoch may be short."""
        of_step = sample_requests.step_micro_batches(self.run, len(self.records), step, self.group.rank)
        return Share(len(of_step), self.loader)

    def release(self, batch: Any) -> None:
        self.loader.release(batch)

    def bad_records(self, known: tuple[int, ...]) -> tuple[int, ...]:
        """Positions of the records replaced so far: `known`, and those that the workers met in this step together.

        Batches that are made ahead of their step do not count yet: wherever a run is stopped, it is the same.
        """
        if not self.run.data.skip_bad:
            return known
        skipped, workers = self.loader.skipped, step_group(self.group, self.run.layout.kvstore)
        for position in map(int, gather(workers, sorted(set(skipped) - set(known)))):
            skipped.setdefault(position, self.records.where(position))
        refuse_too_many_skipped(skipped, self.run.data.skip_bad)
        return tuple(sorted(skipped))


@contextlib.contextmanager
def opened(
    run: Run,
    records: Any,
    num_classes: int,
    first_step: int,
    num_steps: int,
    group: WorkerGroup = SINGLE_WORKER,
    bad_records: tuple[int, ...] = (),
) -> Iterator[InputPipeline]:
    """What this worker's steps `first_step` to `num_steps` are fed while the block lasts; `bad_records` came before."""
    requests = sample_requests.training_requests(run, records, first_step, num_steps, group.rank)
    with _loader(run, records, requests, num_classes) as loader:
        loader.skipped.update((position, records.where(position)) for position in bad_records)
        yield InputPipeline(run, records, group, loader)


def _loader(run: Run, records: Any, requests: Iterator[Request], num_classes: int) -> Any:
    if isinstance(records, UserBatches):
        return records.loader(requests, num_classes)
    size = run.data.image_size
    fill = SampleAssembly(records, _transform(run), run.optim.seed, run.data.skip_bad)
    return Loader(fill, (3, size, size), requests, loader_options(run.data), dtype_of(run))


def _transform(run: Run) -> Transform:
    size = run.data.image_size
    if run.optim.overfit:
        return eval_transform(size, resize_of(run))
    return train_transform(run.data.augment, size)
