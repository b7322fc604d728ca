"""A step divides by the weight that a task gives, once and for all micro-batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.checkpoint.directory import AVERAGES
from mxtrain.data.fields import rounded_length
from mxtrain.data.loading.loader import Batch, Request
from mxtrain.models.parameters import weights
from mxtrain.optim import precision
from mxtrain.runtime import mx
from mxtrain.train import job as jobs
from mxtrain.train.context import TrainContext, build_context
from mxtrain.train.step import train_step
from mxtrain.train.step_end import StepResult
from tests.support.nets.training_steps import arrays, assert_equal
from tests.support.user_code.majority import Majority, forward

RATE, LENGTHS = 0.5, [3, 5, 1, 2, 17, 9]
FLAGS = "--train t.rec --batch-size 6 --micro-batch 2 --optimizer sgd:momentum=0 --weight-decay 0 --ema 0.5"


def context_of(devices: str = "cpu") -> TrainContext:
    run = config.parse([*FLAGS.split(), "--devices", devices])
    context = build_context(jobs.of_data(Majority(run, {"words": 10}), range(100)))
    context.net.drop._rate = 0
    context.net.hybridize()
    return context


def batches(counts: list[bool]) -> list[Batch]:
    """Sequences of those lengths, two of them in a micro-batch; those that do not count weigh nothing."""
    rng, made = np.random.default_rng(0), []
    for position in range(3):
        own = slice(2 * position, 2 * position + 2)
        shape = (2, rounded_length(Majority.fields[0], max(LENGTHS[own])))
        mask = (np.arange(shape[1]) < np.array(LENGTHS[own])[:, None]).astype(np.float32)
        words = (rng.integers(1, 10, shape) * mask).astype(np.int32)
        weight = np.array(LENGTHS[own], np.float32) * counts[own]
        label = np.array([0, 1], np.float32)
        named = {"words": words, "mask": mask, "label": label, "weight": weight}
        made.append(Batch(Request(0, position, 0, np.arange(2)), named, None))
    return made


def stepped(context: TrainContext, given: list[Batch]) -> StepResult:
    return train_step(context, given, lambda batch: None, 0, RATE, precision.LossScale(8.0, dynamic=True))


def expected_step(context: TrainContext, given: list[Batch]) -> tuple[float, dict[str, Any]]:
    """The loss and the weights after a step of plain Gluon on all samples, each of them alone."""
    losses, total = [], sum(float(batch.arrays["weight"].sum()) for batch in given)
    with mx.autograd.record():
        for batch in given:
            for row in range(2):
                length = int(batch.arrays["mask"][row].sum())
                named = {name: mx.nd.array(array[row : row + 1]) for name, array in batch.arrays.items()}
                named = {**named, **{name: named[name][:, :length] for name in ("words", "mask")}}
                losses.append(forward(context.net, named).losses.sum())
        mean = mx.nd.concat(*losses, dim=0).sum() / total
    mean.backward()
    moved = {
        name: (each.data() - RATE * each.grad())
        for name, each in weights.named_parameters(context.net).items()
    }
    return mean.asscalar(), {name: array.asnumpy() for name, array in moved.items()}


@pytest.mark.parametrize("devices", ["cpu", "cpu:0,1,2"])
@pytest.mark.parametrize(
    "counts", [[True] * 6, [True, False, True, True, False, True], [False, False, True, False, False, False]]
)
def test_a_step_is_that_of_one_batch_divided_by_its_weight(counts: list[bool], devices: str) -> None:
    loss, moved = expected_step(context_of(), batches(counts))
    context = context_of(devices)
    result = stepped(context, batches(counts))
    assert result.applied and result.weight == np.dot(LENGTHS, counts) and result.num_samples == 6
    assert result.loss == pytest.approx(loss, rel=1e-5)
    for name, value in arrays(context).items():
        np.testing.assert_allclose(value, moved[name], rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("devices", ["cpu", "cpu:0,1,2"])
def test_a_step_without_weight_moves_nothing(devices: str) -> None:
    context = context_of(devices)
    stepped(context, batches([True] * 6))
    before, grid = arrays(context), context.grid.exponents.copy()
    averages = {name: array.asnumpy() for name, array in context.companions[AVERAGES].averages.items()}
    result = stepped(context, batches([False] * 6))
    assert not result.applied and result.weight == 0 and np.isnan(result.loss)
    assert result.scale == precision.LossScale(8.0, dynamic=True)
    assert_equal(arrays(context), before)
    assert_equal(
        {name: array.asnumpy() for name, array in context.companions[AVERAGES].averages.items()}, averages
    )
    np.testing.assert_array_equal(context.grid.exponents, grid)
