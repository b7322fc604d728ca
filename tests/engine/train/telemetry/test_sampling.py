"""Sampled steps: looking at every step moves no bit, and what is seen is right."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mxtrain.models.parameters import weights
from mxtrain.optim import precision
from mxtrain.optim.precision import LossScale
from mxtrain.runtime import mx
from mxtrain.train.context import TrainContext
from mxtrain.train.step import train_step
from mxtrain.train.step_end import StepResult
from mxtrain.train.telemetry import layer_metrics
from tests.support.amp import needs_bf16
from tests.support.nets.training_steps import arrays, assert_equal, batches, context_of

nn = mx.gluon.nn
NUM_STEPS = 3
UNSCALED = LossScale()


def stepped(context: TrainContext, scale: LossScale = UNSCALED, number: int = 0) -> StepResult:
    context.clock.start_step(number + 1)
    return train_step(context, batches(16, 4, number), lambda batch: None, number, 0.05, scale)


def imperative(num_classes: int) -> Any:
    """A Block that is called as it is, and calls a part of itself twice."""

    class Net(nn.Sequential):
        def forward(self, x: Any) -> Any:
            return super().forward(x) + super().forward(-x)

    net = Net()
    net.add(nn.Conv2D(4, 3), nn.BatchNorm(), nn.Flatten(), nn.Dense(num_classes))
    return net


@pytest.mark.parametrize(
    "flags",
    [
        "--devices cpu:0",
        "--devices cpu:0,1 --kvstore local",
        f"--model {__name__}:imperative",
        pytest.param("--amp bf16", marks=needs_bf16),
        pytest.param("--devices cpu:0,1 --optimizer adam --clip-norm 0.5 --ema 0.9", marks=pytest.mark.slow),
        pytest.param("--sums fast --optimizer lamb --clip-value 0.01", marks=pytest.mark.slow),
        pytest.param("--model small_resnet --remat", marks=pytest.mark.slow),
    ],
)
def test_sampling_every_step_moves_no_bit(flags: str) -> None:
    ends = []
    for sample_steps in (0, 1):
        context = context_of(f"--batch-size 16 --micro-batch 4 {flags} --sample-steps {sample_steps}")
        results = [stepped(context, number=number) for number in range(NUM_STEPS)]
        assert [bool(result.layers) for result in results] == [bool(sample_steps)] * NUM_STEPS
        ends.append(([(result.loss, result.gradient_norm) for result in results], arrays(context)))
        times = context.clock.take()
        stages = {name for name in times if name in ("forward_seconds", "loss_seconds", "backward_seconds")}
        assert all(times[name] > 0 for name in stages) and len(stages) == 3 * sample_steps
    assert ends[0][0] == ends[1][0]
    assert_equal(ends[1][1], ends[0][1])


def length(values: Any) -> float:
    return math.sqrt((values.astype(np.float64) ** 2).sum())


@pytest.mark.parametrize("scale", [UNSCALED, LossScale(1024.0, dynamic=True)])
def test_lengths_of_layers(scale: LossScale) -> None:
    """Of the mean gradient, without the loss scale and before clipping; a frozen layer has none."""
    context = context_of(
        "--batch-size 16 --micro-batch 4 --sample-steps 1 --freeze 0.* --clip-value 0.001 --lr 0.1"
    )
    before = arrays(context)
    result = stepped(context, scale)
    after = arrays(context)
    trained = [name for name in before if not name.startswith("0.") and "running" not in name]
    assert (
        [*result.layers["gradients"]] == [*result.layers["weights"]] == [*result.layers["updates"]] == trained
    )
    assert math.sqrt(sum(each**2 for each in result.layers["gradients"].values())) == pytest.approx(
        result.gradient_norm, rel=1e-6
    )
    for name in trained:
        assert result.layers["weights"][name] == pytest.approx(length(after[name]), rel=1e-5), name
        assert result.layers["updates"][name] == pytest.approx(
            length(after[name] - before[name]), rel=1e-5
        ), name


def test_the_update_of_a_large_parameter_is_estimated() -> None:
    parameter = mx.gluon.Parameter("weight", shape=(64, 64, 3, 3))
    parameter.initialize(mx.init.Normal(1.0))
    before = layer_metrics._spread({"w": parameter})
    assert before["w"].size < 20_000
    moved = mx.nd.random.normal(0, 0.1, shape=parameter.shape)
    parameter.set_data(parameter.data() + moved)
    (found,) = layer_metrics._distances({"w": parameter}, before).values()
    assert found == pytest.approx(length(moved.asnumpy()), rel=0.03)


def test_rows_of_zeros_are_counted_and_no_others() -> None:
    gradient = mx.nd.random.normal(shape=(8, 3, 3, 3))
    gradient[2] = 0
    gradient[5] = 0
    gradient[6] = 0
    gradient[6, 2, 2, 2] = 1e-30
    table = mx.nd.sparse.zeros("row_sparse", (4, 2))
    found = layer_metrics.zero_rows({"conv": gradient, "bias": mx.nd.zeros((8,)), "table": table})
    assert found == {"conv": 2 / 8}


def dying(num_classes: int) -> Any:
    net = nn.HybridSequential()
    net.add(nn.Flatten(), nn.Dense(8, activation="relu"), nn.Dense(num_classes))
    return net


def test_dead_units_are_seen() -> None:
    """A quarter of a layer's never answers anything but zero."""
    context = context_of(
        f"--model {__name__}:dying --batch-size 16 --micro-batch 4 --sample-steps 1 --lr 0.001"
    )
    context.net[1].bias.set_data(mx.nd.array([-1e6] * 2 + [0.0] * 6))
    found = stepped(context).layers["zero_rows"]
    assert found["1.weight"] >= 0.25 and found["2.weight"] == 0.0


class Words(nn.HybridBlock):
    """Of the ids of a picture's pixels it knows far more than any batch has."""

    def __init__(self, num_classes: int):
        super().__init__()
        self.table, self.head = nn.Embedding(100_000, 2), nn.Dense(num_classes)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.head(self.table(F.round(F.abs(x))))


def test_words_that_a_batch_does_not_have_are_not_dead() -> None:
    found = stepped(
        context_of(f"--model {__name__}:Words --batch-size 16 --micro-batch 4 --sample-steps 1")
    ).layers
    assert "table.weight" in found["gradients"] and list(found["zero_rows"]) == ["head.weight"]


def test_a_step_that_is_not_applied_has_layers_too() -> None:
    context = context_of("--batch-size 16 --micro-batch 4 --sample-steps 1")
    next(iter(weights.named_parameters(context.net).values())).data()[:] = np.nan
    result = stepped(context)
    assert not result.applied and not all(map(math.isfinite, result.layers["gradients"].values()))


def test_lengths_are_those_of_the_norm() -> None:
    several = [mx.nd.random.normal(shape=shape) for shape in ((3, 4), (5,), (2, 3, 4))]
    found = precision.lengths([*several, mx.nd.sparse.zeros("row_sparse", (4, 2))])
    assert found[-1] == 0.0
    assert math.sqrt(sum(each**2 for each in found)) == pytest.approx(precision.l2_norm(several), rel=1e-6)
