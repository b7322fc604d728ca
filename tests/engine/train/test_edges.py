"""MXNet reads a number from text, and only a float32: what is allowed at the ends of all ranges trains a step."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.config.checks import bounds, run_checks
from mxtrain.config.components.optimizers import OPTIMIZERS
from mxtrain.data.loading.run_plan import RunLength
from mxtrain.optim import precision, schedules
from mxtrain.runtime import mx
from mxtrain.train import step
from tests.support.nets.training_steps import CLASSES, batches, context_of_run

FEW, MANY = 4, bounds.MOST_SAMPLES


def linear(num_classes: int) -> Any:
    return mx.gluon.nn.Dense(num_classes)


def most(progress: float) -> float:
    return bounds.FAR


def trained(flags: str, loudness: float = 1.0) -> step.StepResult:
    """After two steps of four samples, the pictures' numbers times `loudness`."""
    run = config.parse(f"--train t.rec --image-size 16 --model {__name__}:linear {flags}".split())
    run_checks.check_description(run)
    context, rate_of = context_of_run(run, CLASSES), schedules.rate_function(run.optim, RunLength(1, 2))
    scale = precision.initial_loss_scale(run.model.amp, run.model.loss_scale)
    for number in range(2):
        given = batches(FEW, FEW, number)
        given[0].arrays["data"] *= np.float32(loudness)
        outcome = step.train_step(context, given, lambda batch: None, number, rate_of(number), scale)
    return outcome


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("end", ["low", "high"])
def test_rates_decays_and_the_numbers_of_optimizers(name: str, end: str) -> None:
    """The lowest rate there can be, and the highest: that of a schedule that goes up, by the linear rule."""
    least, highest = bounds.RANGES["lr"]
    ends = {key: getattr(number, end) for key, number in OPTIMIZERS[name].numbers.items()}
    if not ends.get("centered", 1):
        del ends["gamma2"]
    spec = f"{name}:" + ",".join(f"{key}={value:g}" for key, value in ends.items())
    low = f"--lr {least} --lr-base-batch {MANY}"
    high = f"--lr {highest} --batch-size {MANY} --lr-base-batch 1 --schedule {__name__}:most"
    for rate, decay in ((low, bounds.SMALLEST), (high, bounds.RANGES["weight_decay"][1])):
        trained(f"--optimizer {spec} {rate} --weight-decay {decay}")


@pytest.mark.parametrize("clip", bounds.ZERO_IS_NONE)
@pytest.mark.parametrize("loudness", [1e-12, 1.0, 1e6])
def test_clips_and_loss_scales(clip: str, loudness: float) -> None:
    flag = "--" + clip.replace("_", "-")
    for limit, scale in itertools.product(bounds.RANGES[clip], bounds.LOSS_SCALE):
        outcome = trained(f"{flag} {limit} --loss-scale {scale}", loudness)
        is_held = loudness * scale < 1e18  # else float32 does not hold the square of the gradients' length
        assert outcome.applied is is_held and np.isfinite(outcome.loss), (limit, scale)
