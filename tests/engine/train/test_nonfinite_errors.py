"""A run that is no longer finite ends with the name of the layer and the samples where that begins."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.core.errors import Diverged
from mxtrain.data.loading.loader import Batch
from mxtrain.models.nets.small import Residual
from mxtrain.models.parameters import weights
from mxtrain.optim import precision
from mxtrain.runtime import mx
from mxtrain.train import nonfinite_errors, state, step
from mxtrain.train.context import TrainContext
from tests.support.amp import BF16, needs_bf16
from tests.support.nets.training_steps import FLAGS, QUICK_RESNET, batches, context_of, with_loss

nn = mx.gluon.nn


class Root(mx.gluon.HybridBlock):
    """Finite everywhere, but steep at 0: its gradient there is not finite."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.sqrt(F.abs(x))


class Nothing(mx.gluon.HybridBlock):
    """A table that is the same for every input, and is not learnt."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.zeros((1, 3, 1, 1))


class Placed(mx.gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.table = Nothing()

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.broadcast_add(x, self.table(x))


def rooted(num_classes: int) -> Any:
    """A black picture stays 0 up to the root."""
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(Residual(3, 1), Placed(), nn.Conv2D(4, 3, use_bias=False), Root(), nn.GlobalAvgPool2D())
        net.add(nn.Dense(num_classes))
    return net


def without_threes(output: Any, label: Any) -> Any:
    """No number for a label of 3, though its gradient is one."""
    return mx.gluon.loss.SoftmaxCrossEntropyLoss()(output, label) + mx.nd.BlockGrad(mx.nd.log(2.5 - label))


def numbered(num_samples: int, micro_batch: int) -> list[Any]:
    """Batches whose samples are records 100, 101, and so on."""
    made = batches(num_samples, micro_batch, seed=0)
    for batch in made:
        batch.request = dataclasses.replace(batch.request, samples=100 + batch.request.samples)
    return made


def parts_in(out: Path, flags: str = "") -> TrainContext:
    return context_of(f"{FLAGS} --out {out} {flags}")


def diverged(context: TrainContext) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(Path(context.run.output.out, "logs", "diverged.json").read_text())
    return record


def end(context: TrainContext, made: list[Any], scale: float = 1.0) -> tuple[Diverged, dict[str, Any]]:
    """The end of a run whose third step, made of these batches, was one bad step too many."""
    copies = [Batch(b.request, {name: array.copy() for name, array in b.arrays.items()}, None) for b in made]
    progress = state.TrainState(2, precision.LossScale(scale))
    result = step.train_step(context, copies, lambda batch: None, 2, 0.05, progress.scale)
    assert not result.applied
    progress = progress.after_step(result)
    released: list[Any] = []
    found = nonfinite_errors.bad_step(context, made, released.append, "record {}".format, progress, result)
    assert released == made
    assert "\n" not in str(found) and "step 3" in str(found) and "diverged.json" in str(found)
    return found, diverged(context)


@pytest.mark.parametrize("devices", ["cpu:0", "cpu:0,1"])
def test_an_infinite_picture_is_named(tmp_path: Path, devices: str) -> None:
    made = numbered(16, 4)
    made[2].arrays["data"][1, 0, 3, 3] = np.nan
    error, record = end(parts_in(tmp_path, f"--devices {devices}"), made)
    assert "pictures" in str(error) and "samples 109 " in str(error) and record["records"] == ["record 109"]
    assert record["samples"] == [109] and record["samples_of_step"] == list(range(100, 116))
    assert (record["step"], record["way"]) == (3, "forward")


@pytest.mark.parametrize("extra", ["", "--remat", "--mixup 0.4", "--ema 0.9"])
def test_a_weight_in_a_middle_layer_is_named(tmp_path: Path, extra: str) -> None:
    context = parts_in(tmp_path, f"--model {QUICK_RESNET} {extra}")
    name = "5.body.3.weight"
    weights.named_parameters(context.net)[name].data()[0, 0, 0, 0] = np.nan
    error, record = end(context, numbered(16, 4))
    assert record["layer"] == "layer 5.body.3 (Conv2D), whose weight is not finite"
    assert record["samples"] == [100, 101, 102, 103] and record["way"] == "forward"
    assert "5.body.3" in str(error) and "samples 100, 101, 102 and 1 more" in str(error)


def test_an_overflow_in_a_middle_layer_is_named(tmp_path: Path) -> None:
    """Large but finite pictures, and a convolution that adds them up."""
    context = parts_in(tmp_path, f"--model {__name__}:rooted")
    made = numbered(8, 4)
    made[1].arrays["data"][2] = 1e38
    weights.named_parameters(context.net)["2.weight"].data()[:] = 1
    _, record = end(context, made)
    assert record["way"] == "forward" and 106 in record["samples"] and "layer 0" in record["layer"], record


def test_a_gradient_is_named_with_its_layer(tmp_path: Path) -> None:
    """Forward all is finite; behind a block with a shortcut, so that blocks do not follow one another in a row."""
    made = numbered(16, 4)
    made[1].arrays["data"][3] = 0
    error, record = end(parts_in(tmp_path, f"--model {__name__}:rooted"), made)
    assert record["layer"] == "layer 3 (Root)" and record["way"] == "backward"
    assert record["samples"] == [107] and math.isfinite(record["loss"])
    assert "samples 107 " in str(error)


def test_a_loss_whose_gradients_are_finite_is_named(tmp_path: Path) -> None:
    context, made = with_loss(parts_in(tmp_path), without_threes), numbered(8, 4)
    made[0].arrays["label"][:], made[1].arrays["label"][:] = [0, 1, 2, 0], [3, 0, 3, 1]
    _, record = end(context, made)
    assert (record["layer"], record["way"], record["loss"]) == ("the loss", "forward", "nan")
    assert record["samples"] == [104, 106]


def lost(context: TrainContext) -> tuple[str, dict[str, Any]]:
    """How the run ends that would save these weights."""
    error = nonfinite_errors.spoilt_weights(context, state.TrainState(5, precision.LossScale()))
    return str(error), diverged(context)


def test_weights_that_an_update_spoilt_are_named(tmp_path: Path) -> None:
    context = parts_in(tmp_path, f"--model {QUICK_RESNET} --remat --devices cpu:0,1")
    named = weights.named_parameters(context.net)
    named["5.body.3.weight"].data(mx.cpu(0))[0, 0, 0, 0] = 3e20
    line, _ = lost(context)
    assert (
        "weights are longer than 1.8e19" in line and "in layer 5.body.3 (Conv2D), which reaches 3e+20" in line
    )
    named["5.body.4.gamma"].data(mx.cpu(0))[0] = np.nan
    line, record = lost(context)
    assert (
        record["layer"] == "layer 5.body.4 (BatchNorm), whose gamma is not finite" and record["layer"] in line
    )
    assert (record["step"], record["way"], record["samples"]) == (5, "update", [])


def test_a_sum_that_alone_overflows_is_reported(tmp_path: Path) -> None:
    """Every number is finite; the length of the gradient is not."""
    error, record = end(parts_in(tmp_path), numbered(16, 4), scale=1e25)
    assert record["layer"] is None and "longer than 1.8e19" in str(error) and "--loss-scale" in str(error)


@needs_bf16
def test_layers_of_a_net_in_bfloat16_are_named(tmp_path: Path) -> None:
    context = parts_in(tmp_path, f"{BF16} --model {__name__}:rooted")
    made = numbered(16, 4)
    made[1].arrays["data"][3] = 0
    record = end(context, made)[1]
    assert record["layer"] == "layer 3 (Root)" and record["samples"] == [107]
