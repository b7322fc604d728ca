"""The rate of a run's training steps on batches that are there already, and of its real steps with its loader.

Runs in a process of its own (`trial.py`). The batches are those of the run's first step, again and again; the learning
rate is next to nothing, so that no rate of the user's can spoil the numbers on the way.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Callable, Iterator, List, Sequence

import numpy as np

from mxtrain.data.loading.loader import Batch
from mxtrain.doctor.run import rates
from mxtrain.doctor.run.rates import Rate
from mxtrain.models.parameters import weights
from mxtrain.optim import precision
from mxtrain.runtime import mx
from mxtrain.train.context import TrainContext, build_context
from mxtrain.train.held import choice
from mxtrain.train.input_pipeline import InputPipeline, StepBatches, open_pipeline
from mxtrain.train.job import TrainingJob
from mxtrain.train.net import build_net
from mxtrain.train.net.to_device import to_device

MANY_STEPS = 10**9
WARM_UP_STEPS = 2  # which make graphs, and the optimizer's state
MIN_STEPS = 3
SLOW = 2.0  # times as long as was meant: two steps, whose rates have a spread, are enough then
WARM_UP = 0.3  # of the time of real steps
RATE_SHARE = 1e-6  # of --lr


def measure(job: TrainingJob, seconds: float, with_loader: bool) -> dict[str, Any]:
    """Return the `rate` of steps alone and, `with_loader`, of real ones as `step`, in about `seconds` and the warm-up.

    Also the seconds of a copy for a checkpoint and its bytes, the samples a second that are evaluated, and the number
    of elements of each gradient.
    """
    context = build_context(job)
    share = seconds / 2 if with_loader else seconds
    with open_pipeline(job, range(MANY_STEPS)) as pipeline:
        first = list(pipeline.batches(0))  # not released, so they stay valid
    one_step = Stepper(job, context)
    measured: dict[str, Any] = {
        "rate": timed(lambda: one_step(copies(first), lambda batch: None), share),
        "gradients": [
            int(np.prod(each.shape)) for each in context.trainer.parameters if each.grad_req != "null"
        ],
    }
    if not with_loader:
        return measured
    with open_pipeline(job, range(1, MANY_STEPS)) as pipeline:
        measured.update(_real_steps(one_step, pipeline, share))
    measured.update(_checkpoint(context))
    measured["evaluation"] = _evaluation(context, first)
    return measured


class Stepper:
    """The steps of a run, counted; each takes its batches and returns the number of their samples."""

    def __init__(self, job: TrainingJob, context: TrainContext):
        model, optim = job.run.model, job.run.optim
        self._context, self._rate = context, RATE_SHARE * optim.lr
        self._scale = precision.initial_loss_scale(model.amp, model.loss_scale)
        self.step = 0

    def __call__(self, batches: Any, release: Callable[[Any], None]) -> int:
        result = choice.step_of(self._context)(
            self._context, batches, release, self.step, self._rate, self._scale
        )
        self.step, self._scale = self.step + 1, result.scale
        return result.num_samples


@dataclasses.dataclass
class Waiting:
    """The batches of a step, which add up the seconds for which they are waited for."""

    batches: StepBatches
    seconds: float = 0.0

    def __len__(self) -> int:
        return len(self.batches)

    def peek(self, count: int) -> list[Batch]:
        """Return the next batches without taking them."""
        started = time.monotonic()
        found = self.batches.peek(count)
        self.seconds += time.monotonic() - started
        return found

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self.batches)
        while True:
            started = time.monotonic()
            batch = next(batches, None)
            self.seconds += time.monotonic() - started
            if batch is None:
                return
            yield batch


class StepCopies(List[Batch]):
    """The micro-batches of a step that is made again and again; nothing comes after it."""

    def peek(self, count: int) -> list[Batch]:
        """Return nothing."""
        return []


def copies(batches: Sequence[Batch]) -> StepCopies:
    """Return the batches with arrays of their own: a task may change in place what it gets."""
    return StepCopies(
        dataclasses.replace(batch, arrays={name: array.copy() for name, array in batch.arrays.items()})
        for batch in batches
    )


def timed(step: Callable[[], int], seconds: float, warm_up: int = WARM_UP_STEPS) -> Rate:
    """Return the samples a second of steps, each of which returns their number, after `warm_up` others.

    Of steps that take longer than `seconds` there are fewer of both.
    """
    began = time.monotonic()
    for number in range(warm_up):
        if number == 0 or time.monotonic() - began < seconds:
            step()
    times, amounts = [time.monotonic()], [0]
    while not _is_enough(len(times) - 1, times[-1] - times[0], seconds):
        amounts.append(step())
        times.append(time.monotonic())
    return rates.of_events(times, amounts)


def _is_enough(num_steps: int, taken: float, seconds: float) -> bool:
    return taken >= seconds and (
        num_steps >= MIN_STEPS or (num_steps >= 2 and taken >= SLOW * max(seconds, 1.0))
    )


def _real_steps(one_step: Stepper, pipeline: InputPipeline, seconds: float) -> dict[str, Any]:
    """Return the rate of steps that the loader feeds, and the share of their time that they wait for it."""
    waited: list[float] = []
    place = iter(range(1, MANY_STEPS))

    def step() -> int:
        batches = Waiting(pipeline.batches(next(place)))
        num_samples = one_step(batches, pipeline.release)
        waited.append(batches.seconds)
        return num_samples

    started = time.monotonic()
    while (
        time.monotonic() - started < WARM_UP * seconds or len(waited) < WARM_UP_STEPS
    ):  # with what was loaded ahead
        step()
    num_before, began = len(waited), time.monotonic()
    rate = timed(step, (1 - WARM_UP) * seconds, warm_up=0)
    return {"step": rate, "waiting": sum(waited[num_before:]) / (time.monotonic() - began)}


def _checkpoint(context: TrainContext) -> dict[str, Any]:
    """Return how long training waits while a checkpoint's arrays are copied, and their size."""
    mx.nd.waitall()
    started = time.monotonic()
    arrays = [*weights.copy_of(context.net).values(), *context.trainer.optimizer_state()[0].values()]
    for companion in context.companions.values():
        arrays += companion.arrays().values()
    return {
        "checkpoint_seconds": time.monotonic() - started,
        "checkpoint_bytes": sum(int(np.prod(each.shape)) * np.dtype(each.dtype).itemsize for each in arrays),
    }


def _evaluation(context: TrainContext, batches: list[Any]) -> Rate:
    """Return the samples a second of a forward pass alone, as an evaluation does it."""

    def forward() -> int:
        for batch in batches[: len(context.devices)]:
            place = context.devices[batch.request.position % len(context.devices)]
            arrays = {name: to_device(array, place) for name, array in batch.arrays.items()}
            context.plain_forward(context.net, arrays).losses.asnumpy()
        return sum(map(len, batches[: len(context.devices)]))

    with build_net.standing_still(context.net, context.run, context.task.objects):
        return timed(forward, 0.0)
