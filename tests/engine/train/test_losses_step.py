"""Losses inside a step: smoothed, mixed, and in micro-batches of unequal size, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from mxtrain import config
from mxtrain.optim import precision
from mxtrain.runtime import mx
from mxtrain.train import step
from mxtrain.train.context import TrainContext
from tests.support.breadth import slow_cases
from tests.support.losses.reference_losses import log_softmax
from tests.support.nets.training_steps import CLASSES, QUICK_RESNET, SIZE, batches, context_of_run

# Norms that compute as in evaluation: a sample's output depends on no other.
LINE = f"--train t.rec --image-size {SIZE} --model {QUICK_RESNET} --freeze *running* --batch-size 10"


def context_of(flags: str) -> TrainContext:
    return context_of_run(config.parse(f"{LINE} {flags}".split()), CLASSES)


def expected_loss(context: TrainContext, micro_batch: int, smoothing: float) -> float:
    """Return the mean loss over the samples of step 0, computed by NumPy."""
    losses = []
    for position, batch in enumerate(batches(10, micro_batch, seed=0)):
        mixed_in = context.task.mix(batch.arrays["data"], batch.arrays["label"], 0, position)
        log_probabilities = log_softmax(
            context.net(mx.nd.array(batch.arrays["data"])).asnumpy().astype(np.float64)
        )
        target = np.eye(CLASSES)[batch.arrays["label"].astype(int)]
        if mixed_in is not None:
            share = mixed_in.fraction[:, None]
            target = (1 - share) * target + share * np.eye(CLASSES)[mixed_in.label.astype(int)]
        target = (1 - smoothing) * target + smoothing / CLASSES
        losses.append(-(target * log_probabilities).sum(axis=1))
    return float(np.concatenate(losses).mean())


@pytest.mark.parametrize("devices", ["cpu:0,1", *slow_cases("cpu")])
@pytest.mark.parametrize("mixing", ["", "--mixup 0.4", "--cutmix 1", "--mixup 0.4 --cutmix 1"])
@pytest.mark.parametrize("micro_batch", [4, *slow_cases(10)])
def test_smoothed_and_mixed_losses(devices: str, mixing: str, micro_batch: int) -> None:
    context = context_of(f"--micro-batch {micro_batch} --label-smoothing 0.2 {mixing} --devices {devices}")
    expected = expected_loss(context, micro_batch, smoothing=0.2)
    outcome = step.train_step(
        context, batches(10, micro_batch, 0), lambda b: None, 0, 0.01, precision.LossScale()
    )
    assert outcome.num_samples == 10
    assert outcome.loss == pytest.approx(expected, rel=1e-4)


def test_smoothing_changes_the_curve() -> None:
    plain, smoothed = (
        expected_loss(context_of("--micro-batch 10"), 10, smoothing) for smoothing in (0.0, 0.2)
    )
    assert abs(plain - smoothed) > 0.01 * plain
