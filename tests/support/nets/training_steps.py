"""Training steps of small nets on random batches, without data files or a loop around them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from mxtrain import config
from mxtrain.checkpoint import directory
from mxtrain.checkpoint.input_identity import InputIdentity
from mxtrain.data.loading.loader import Batch, Request
from mxtrain.doctor.run.compute_rate import StepCopies
from mxtrain.models.nets.small import Residual
from mxtrain.models.parameters import weights
from mxtrain.optim import precision
from mxtrain.runtime import mx
from mxtrain.tasks.classification import Classification
from mxtrain.train import job as jobs
from mxtrain.train import state
from mxtrain.train.context import TrainContext, build_context
from mxtrain.train.job import TrainingJob
from mxtrain.train.step import train_step

CLASS_NAMES, SIZE = ["a", "b", "c", "d"], 16
CLASSES = len(CLASS_NAMES)
FLAGS = "--batch-size 16 --micro-batch 4 --lr 0.05 "
IDENTITY = InputIdentity({"class_names": CLASS_NAMES}, num_samples=100)


QUICK_NET = f"{__name__}:quick_net"  # a step of small_cnn takes three times as long, most of it in Python


def quick_net(num_classes: int) -> Any:
    """Return the first stage and the head of small_cnn: every kind of layer that it has."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    with net.name_scope():
        for _ in range(2):
            net.add(nn.Conv2D(8, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
        net.add(nn.MaxPool2D(2), nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dropout(0.2), nn.Dense(num_classes))
    return net


QUICK_RESNET = f"{__name__}:quick_resnet"


def quick_resnet(num_classes: int) -> Any:
    """Return small_resnet with half of its blocks and few channels: 0 to 2 before them, 3 to 5 they, 8 the head."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Conv2D(8, 3, 1, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
        net.add(Residual(8, 1), Residual(8, 1), Residual(16, 2))
        net.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(num_classes))
    return net


def job_of(run: config.Run, num_classes: int, identity: InputIdentity = IDENTITY) -> TrainingJob:
    """Return the job of training on pictures of so many classes, which nobody reads."""
    num_samples: Any = range(identity.num_samples)
    job = jobs.of_data(Classification.numbered(run, num_classes), num_samples)
    return dataclasses.replace(job, identity=identity)


def context_of_run(run: config.Run, num_classes: int, identity: InputIdentity = IDENTITY) -> TrainContext:
    """Return everything that a first step of `run` on pictures of so many classes needs."""
    return build_context(job_of(run, num_classes, identity))


def with_loss(context: TrainContext, loss: Any) -> TrainContext:
    """Return the context with another loss to learn from."""
    return dataclasses.replace(context, forward=dataclasses.replace(context.forward, loss=loss))


def context_of(flags: str) -> TrainContext:
    run = config.parse(["--train", "t.rec", "--image-size", str(SIZE), "--model", QUICK_NET, *flags.split()])
    return context_of_run(run, CLASSES)


def batches(num_samples: int, micro_batch: int, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((num_samples, 3, SIZE, SIZE)).astype(np.float32)
    label = rng.integers(0, CLASSES, num_samples).astype(np.float32)
    starts = range(0, num_samples, micro_batch)
    return [
        Batch(
            Request(0, position, 0, np.arange(num_samples)[start : start + micro_batch]),
            {
                "data": data[start : start + micro_batch].copy(),
                "label": label[start : start + micro_batch].copy(),
            },
            None,
        )
        for position, start in enumerate(starts)
    ]


def train(context: TrainContext, num_steps: int, micro_batch: int = 4, num_samples: int = 16) -> list[float]:
    scale, losses = precision.LossScale(), []
    for number in range(num_steps):
        step = StepCopies(batches(num_samples, micro_batch, number))
        result = train_step(context, step, lambda batch: None, number, 0.05, scale)
        assert result.num_samples == num_samples and result.applied
        losses.append(result.loss)
    return losses


def arrays(context: TrainContext) -> dict[str, np.ndarray]:
    return {name: p.list_data()[-1].asnumpy() for name, p in weights.named_parameters(context.net).items()}


def assert_equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Assert that these arrays are the same to the bit."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def run_of(out: Path, *flags: str) -> config.Run:
    line = f"--train t.rec --image-size {SIZE} --model {QUICK_NET} --batch-size 8 --micro-batch 4 --lr 0.01"
    return config.parse([*line.split(), "--out", str(out), *flags])


def advance(
    context: TrainContext, progress: state.TrainState, num_steps: int
) -> tuple[state.TrainState, list[float]]:
    losses = []
    for number in range(progress.step, progress.step + num_steps):
        rate = 0.01 / (1 + number)
        result = train_step(context, batches(8, 4, number), lambda batch: None, number, rate, progress.scale)
        progress = progress.after_step(result)
        losses.append(result.loss)
    return progress, losses


def save(run: config.Run, context: TrainContext, progress: state.TrainState) -> Path:
    return directory.write(Path(run.output.out) / "checkpoints", state.snapshot(context, progress))
