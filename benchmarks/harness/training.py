"""Training as `fit` does it, on one batch in memory: neither reading nor writing is in its time."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Sequence

if TYPE_CHECKING:
    from mxtrain.config import Run
    from mxtrain.train.context import TrainContext
    from mxtrain.train.step_end import StepResult

NUM_CLASSES = 1000
RATE = 1e-6  # with which no number of steps spoils the weights


def noise(count: int, size: int, num_classes: int = NUM_CLASSES, seed: int = 0) -> tuple[Any, Any]:
    """Return square pictures of noise and a class for each, as the loader would give them."""
    import numpy as np

    rng = np.random.default_rng(seed)
    data = rng.standard_normal((count, 3, size, size)).astype(np.float32)
    return data, rng.integers(0, num_classes, count).astype(np.float32)


def batches_of(data: Any, label: Any, micro_batch: int = 0, first: int = 0) -> list[Any]:
    """Return the micro-batches of a step, from the position `first` on; 0: all in one."""
    import numpy as np

    from mxtrain.data.loading.loader import Batch, Request

    samples, size = np.arange(len(label)), micro_batch or len(label)
    return [
        Batch(
            Request(0, first + position, 0, samples[start : start + size]),
            {"data": data[start : start + size], "label": label[start : start + size]},
            None,
        )
        for position, start in enumerate(range(0, len(label), size))
    ]


def run_of(*flags: object) -> Run:
    """Return the run of these flags, on data that nobody reads."""
    from mxtrain import config

    return config.parse(["--train", "none.rec", *map(str, flags)])


def context_of(run: Run, num_classes: int = NUM_CLASSES, **of_job: Any) -> TrainContext:
    """Return what the steps of a run on pictures work with; `of_job` are fields of its job."""
    from mxtrain.tasks.classification import Classification
    from mxtrain.train import job as jobs
    from mxtrain.train.context import build_context

    samples: Any = range(10**6)
    job = jobs.of_data(Classification.numbered(run, num_classes), samples)
    return build_context(dataclasses.replace(job, **of_job))


class Training:
    """Steps of a run on the same batches, one after the other."""

    def __init__(self, context: TrainContext, batches: Sequence[Any], rate: float = RATE):
        from mxtrain.train import state

        self.context, self.batches, self.rate = context, batches, rate
        self.progress = state.restore(context, None)

    def step(self) -> StepResult:
        """Make one more step."""
        from mxtrain.train.step import train_step

        progress = self.progress
        result = train_step(
            self.context, self.batches, lambda batch: None, progress.step, self.rate, progress.scale
        )
        self.progress = progress.after_step(result)
        return result
