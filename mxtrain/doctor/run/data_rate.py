"""The rate at which a run's loader makes batches that nobody computes with, as its flags say and as others would.

Runs in a process of its own (`trial.py`), without mxnet as long as the user's code needs none.
"""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path, PurePath
from typing import Any

from mxtrain.config import Run
from mxtrain.config.components import import_path
from mxtrain.config.values import sizes
from mxtrain.core.errors import UsageError
from mxtrain.core.system import machine
from mxtrain.data.decode import pixel_cache
from mxtrain.data.interfaces import Dataset, Record, Records
from mxtrain.data.records.recordio import Floats, Ints
from mxtrain.data.user.streams import Stream
from mxtrain.data.user.user_datasets import UserBatches
from mxtrain.doctor.run import rates
from mxtrain.doctor.run.rates import Rate
from mxtrain.tasks import registry as tasks
from mxtrain.train import job as jobs
from mxtrain.train.input_pipeline import open_pipeline
from mxtrain.train.job import TrainingJob

WARM_UP = 0.4  # of the time: `auto` finds its number of workers, and what was loaded ahead is used up
MANY_STEPS = 10**9
MIN_BATCHES = 4
CACHED_SAMPLES = 256


def measure(job: TrainingJob, seconds: float, variants: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the rate `as_given`, and with each of `variants`, flags by name; together in about `seconds`.

    A variant that this machine or the data refuses has a `refusal` in its place.
    """
    share = seconds / (len(variants) + 1)
    measured: dict[str, Any] = {
        "as_given": rate_of(job, share),
        "variants": [],
    }
    for flags in variants:
        run = dataclasses.replace(job.run, data=dataclasses.replace(job.run.data, **flags))
        variant = jobs.of_data(
            tasks.of_description(run, job.task.description, job.task.objects), job.train_set
        )
        entry: dict[str, Any] = {"flags": flags}
        if "cache" in flags:
            entry.update(_cached(variant, share))
        else:
            entry["rate"] = rate_of(variant, share)
        measured["variants"].append(entry)
    return measured


def variants(run: Run, dataset: Dataset, has_cache: bool) -> list[dict[str, Any]]:
    """Return the flags that are worth trying, by name; `has_cache` where the task's pictures can be kept decoded."""
    if isinstance(dataset, UserBatches):
        return []
    cores = machine.usable_cores()
    numbers = sorted({*(2**power for power in range(10) if 2**power <= cores), cores, 2 * cores})
    found: list[dict[str, Any]] = [{"loader": "threads", "loader_workers": str(each)} for each in numbers]
    if not any(import_path.is_import_path(source) for source in (run.data.train, run.data.val) if source):
        found.append({"loader": "processes", "loader_workers": str(cores)})
    if has_cache and run.data.cache == "none" and not isinstance(dataset, Stream):
        found.append({"cache": "ram"})
    return found


def rate_of(job: TrainingJob, seconds: float) -> Rate:
    """Return the samples a second that the loader of `job` makes, once it runs evenly."""
    times: list[float] = []
    amounts: list[int] = []
    started: float | None = None
    with open_pipeline(job, range(MANY_STEPS)) as pipeline:
        for batch in pipeline.loader:
            now = time.monotonic()
            started = now if started is None else started  # workers may take long to start
            if now - started < WARM_UP * seconds:
                times, amounts = [now], [len(batch)]
            else:
                times.append(now)
                amounts.append(len(batch))
            pipeline.release(batch)
            if now - started > seconds and len(times) > MIN_BATCHES:
                break
    return rates.of_events(times, amounts)


def _cached(job: TrainingJob, seconds: float) -> dict[str, Any]:
    """Return the rate of a cache of the first samples, the seconds to fill one with all, and the bytes of that."""
    records = _First(job.train_set, CACHED_SAMPLES)  # type: ignore[arg-type]  # no stream nor DataLoader
    started = time.monotonic()
    try:
        cached = pixel_cache.in_memory(
            records, machine.usable_cores(), image_size=max(sizes.height_and_width(job.run.data.image_size))
        )
    except UsageError as refusal:
        return {"refusal": str(refusal)}
    share = len(records) / len(job.train_set)
    taken = time.monotonic() - started
    num_bytes = os.stat(cached.descriptors[-1]).st_size
    return {
        "rate": rate_of(dataclasses.replace(job, train_set=cached), seconds),
        "fill_seconds": taken / share,
        "bytes": num_bytes / share,
        "memory_bytes": machine.available_memory(),
    }


class _First:
    """The first samples of a data set: `Records`."""

    def __init__(self, records: Records, most: int):
        self._records, self._length = records, min(most, len(records))
        self.path: PurePath = records.path
        self.class_names: list[str] | None = records.class_names
        self.files: list[Path] = []
        self.keys: Ints = records.keys[: self._length]
        self.descriptors: tuple[int, ...] = records.descriptors

    def __len__(self) -> int:
        return self._length

    def read(self, position: int, verify: bool = True) -> Record:
        return self._records.read(position, verify)

    def where(self, position: int) -> str:
        return self._records.where(position)

    def will_need(self, positions: Ints) -> None:
        self._records.will_need(positions)

    def labels(self) -> Floats:
        labels: Floats = self._records.labels()[: self._length]
        return labels
