"""What a run's steps are fed: the loader that makes their micro-batches, and how many each step takes.

Which samples make up each is `data/visits.py`'s, what happens to one of them the rest of `data`'s.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from typing import Any, Iterator

from mxtrain.config import Run
from mxtrain.data import visits
from mxtrain.data.augment import eval_transform, train_transform
from mxtrain.data.fill import Fill
from mxtrain.data.given import GivenBatches
from mxtrain.data.loader import Loader, Request, way_of
from mxtrain.data.pixels import Transform
from mxtrain.train.evaluate import resize_of
from mxtrain.train.handover import dtype_of


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
class Feed:
    """The batches of a run's steps, in order; each is given back with `release` when it is used."""

    run: Run
    num_samples: int
    worker: int
    loader: Any

    def batches(self, step: int) -> Share:
        """This worker's of the next step, which is number `step`; the last one of an epoch may be short."""
        of_step = visits.share(self.run, self.num_samples, step, self.worker)
        return Share(len(of_step), self.loader)

    def release(self, batch: Any) -> None:
        self.loader.release(batch)

    @property
    def num_bad_records(self) -> int:
        """How many were replaced so far."""
        return len(self.loader.skipped)


@contextlib.contextmanager
def opened(
    run: Run, records: Any, num_classes: int, first_step: int, num_steps: int, worker: int = 0
) -> Iterator[Feed]:
    """What a worker's steps `first_step` to `num_steps` are fed while the block lasts."""
    requests = visits.requests(run, records, first_step, num_steps, worker)
    with _loader(run, records, requests, num_classes) as loader:
        yield Feed(run, len(records), worker, loader)


def _loader(run: Run, records: Any, requests: Iterator[Request], num_classes: int) -> Any:
    if isinstance(records, GivenBatches):
        return records.loader(requests, num_classes)
    size = run.data.image_size
    fill = Fill(records, _transform(run), run.optim.seed, run.data.skip_bad)
    return Loader(fill, (3, size, size), requests, way_of(run.data), dtype_of(run))


def _transform(run: Run) -> Transform:
    size = run.data.image_size
    if run.optim.overfit:
        return eval_transform(size, resize_of(run))
    return train_transform(run.data.augment, size)
