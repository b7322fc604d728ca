"""Training steps of nets that are here as a whole, and of the same ones of which a segment is, side by side."""

from __future__ import annotations

import math
from typing import Any, Iterator, NamedTuple, Sequence

import numpy as np

from mxtrain import config
from mxtrain.data.fields import Array
from mxtrain.data.loading.loader import Batch, Request
from mxtrain.optim.precision import LossScale
from mxtrain.runtime import mx
from mxtrain.tasks import lm
from mxtrain.train import job as jobs
from mxtrain.train.context import TrainContext
from mxtrain.train.held import choice, stored
from mxtrain.train.held.trainer import HeldTrainer
from mxtrain.train.job import TrainingJob
from mxtrain.train.step_end import StepResult
from tests.support.nets import training_steps

END, WINDOW, VOCAB = 0, 16, 64
GPT = "gpt:layers=3,heads=2,width=16"


class Trained(NamedTuple):
    """What steps of training have come to."""

    results: Sequence[StepResult]
    weights: dict[str, Array]
    states: dict[str, Array]
    counts: dict[str, int]


def gpt_job(flags: str, dropout: float = 0.1) -> TrainingJob:
    line = f"--task lm --train t --model {GPT},dropout={dropout} --window {WINDOW} --batch-size 8 {flags}"
    described = {"tokenizer": "bytes", "vocab_size": VOCAB, "end_token": END, "window": WINDOW}
    samples: Any = range(100)
    return jobs.of_data(lm.LanguageModel(config.parse(line.split()), described), samples)


DROPPING_NET = f"{__name__}:dropping_net"


def dropping_net(num_classes: int) -> Any:
    """Return a net that draws random numbers in several of its segments, the last of them too."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Conv2D(8, 3, padding=1, in_channels=3))
        for _ in range(3):
            net.add(nn.Conv2D(8, 3, padding=1, in_channels=8), nn.Dropout(0.2), nn.Activation("relu"))
        net.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dropout(0.2), nn.Dense(num_classes))
    return net


def net_job(flags: str, net: str = training_steps.QUICK_RESNET) -> TrainingJob:
    """Return a job of training a small net, by default one with running statistics."""
    size = training_steps.SIZE
    line = f"--train t.rec --image-size {size} --model {net} --batch-size 16 {flags}"
    return training_steps.job_of(config.parse(line.split()), training_steps.CLASSES)


def texts(step: int, job: TrainingJob) -> list[Batch]:
    rng, (num_samples, size) = np.random.default_rng(step), _sizes(job)
    tokens = rng.integers(0, VOCAB, (num_samples, WINDOW + 1)).astype(np.int32)
    return [
        Batch(
            Request(0, position, 0, np.arange(size)),
            {"tokens": rows[:, :-1].copy(), "targets": rows[:, 1:].copy()},
            None,
        )
        for position, rows in enumerate(np.split(tokens, num_samples // size))
    ]


def pictures(step: int, job: TrainingJob) -> list[Batch]:
    return training_steps.batches(*_sizes(job), step)


def _sizes(job: TrainingJob) -> tuple[int, int]:
    return job.plan.batch.batch_size, job.plan.batch.micro_batch


def trained(job: TrainingJob, num_steps: int, scale: float = 1.0, bad_step: int | None = None) -> Trained:
    """Return what these steps come to; the losses of `bad_step` are not finite."""
    context = choice.context_of(job)
    return Trained(list(steps(context, num_steps, scale, bad_step)), *arrays(context))


def steps(
    context: TrainContext, num_steps: int, scale: float = 1.0, bad_step: int | None = None, first: int = 0
) -> Iterator[StepResult]:
    job = context.job
    batches: Any = texts if isinstance(job.task, lm.LanguageModel) else pictures
    current = LossScale(scale)
    for step in range(first, first + num_steps):
        # So large that the gradient, and no weight of a loss, is out of float32's reach.
        of_step = LossScale(2.0**127) if step == bad_step else current
        yield choice.step_of(context)(
            context, batches(step, job), lambda batch: None, step, 0.01 / (1 + step), of_step
        )


def arrays(context: TrainContext) -> tuple[dict[str, Array], dict[str, Array], dict[str, int]]:
    """Return weights, the optimizer's arrays and counts, wherever they are."""
    states, counts = context.trainer.optimizer_state()
    trainer = context.trainer
    if isinstance(trainer, HeldTrainer):
        weights = dict(stored.weights_of(trainer, context.net))
    else:
        weights = training_steps.arrays(context)
    return weights, {name: np.array(each) for name, each in states.items()}, counts


def assert_same(found: Trained, expected: Trained) -> None:
    """Assert that all numbers are the same to the bit."""
    for one, other in zip(found.results, expected.results):
        assert _numbers(one) == _numbers(other)
    training_steps.assert_equal(found.weights, expected.weights)
    training_steps.assert_equal(found.states, expected.states)
    assert found.counts == expected.counts


def _numbers(result: StepResult) -> list[object]:
    numbers = [result.loss, result.weight, result.gradient_norm, *result.means.values()]
    return [
        result.applied,
        result.num_samples,
        result.scale,
        *("nan" if math.isnan(each) else each for each in numbers),
    ]
