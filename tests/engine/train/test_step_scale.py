"""Loss scaling, clipping and skipping: against NumPy, and against runs without the skipped steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mxtrain.optim import optimizer_state, precision
from mxtrain.runtime import mx
from mxtrain.train import state, step
from mxtrain.train.context import TrainContext
from tests.support.amp import AMP, again_in_bfloat16, needs_bf16
from tests.support.breadth import slow_cases
from tests.support.nets.training_steps import (
    CLASSES,
    FLAGS,
    arrays,
    assert_equal,
    batches,
    context_of,
    with_loss,
)

Scale = precision.LossScale
DYNAMIC = Scale(scale=1024.0, dynamic=True, growth_interval=3)


class Overflow(mx.autograd.Function):
    """Hands on what it gets; its gradient is infinite, as where a scaled one leaves float16."""

    def forward(self, losses: Any) -> Any:
        return losses * 1

    def backward(self, gradient: Any) -> Any:
        return gradient * np.inf


class Loss:
    """Cross entropy whose gradients overflow on one device while `overflows` is set."""

    def __init__(self, device: Any):
        self.device, self.overflows = device, False
        self.cross_entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def __call__(self, output: Any, label: Any) -> Any:
        losses = self.cross_entropy(output, label)
        return Overflow()(losses) if self.overflows and losses.context == self.device else losses


def advance(context: TrainContext, number: int, scale: Scale, num_samples: int = 16) -> step.StepResult:
    return step.train_step(context, batches(num_samples, 4, number), lambda batch: None, number, 0.05, scale)


def everything(context: TrainContext) -> dict[str, np.ndarray]:
    """Weights, running statistics, optimizer states and averages."""
    found = dict(arrays(context))
    for index, value in context.trainer._updaters[0].states.items():
        found.update(
            {
                f"state {index}.{place}": each.asnumpy()
                for place, each in enumerate(optimizer_state.state_arrays(value))
            }
        )
    for companion in context.companions.values():
        found.update({f"average {name}": value for name, value in companion.arrays().items()})
    return found


@pytest.mark.parametrize("store", [pytest.param("local", marks=pytest.mark.slow), "device"])
@pytest.mark.parametrize("extra", ["--clip-norm 0.5 --ema 0.9", *slow_cases("", "--clip-value 0.01")])
def test_overflows_are_as_if_those_steps_had_not_been(store: str, extra: str) -> None:
    """Two devices, two micro-batches each; one device alone overflows. Powers of two move no bit."""
    flags = FLAGS + f"--devices cpu:0,1 --kvstore {store} {AMP} {extra}"
    context, plain = context_of(flags), context_of(flags)
    loss = Loss(mx.cpu(1))
    context = with_loss(context, loss)
    progress, scales = state.TrainState(0, DYNAMIC), []
    for number in range(8):
        loss.overflows = number in (1, 2, 6)
        result = advance(context, number, progress.scale)
        assert result.applied is not loss.overflows and np.isfinite(result.loss)
        progress = progress.after_step(result)
        scales.append(progress.scale.scale)
        if not loss.overflows:
            expected = advance(plain, number, Scale())
            assert (result.loss, result.gradient_norm) == (expected.loss, expected.gradient_norm)
    assert scales == [1024, 512, 256, 256, 256, 512, 256, 256]
    assert (progress.skipped_steps, progress.bad_steps_in_a_row) == (3, 0)
    assert_equal(everything(context), everything(plain))


@pytest.mark.parametrize(
    "extra",
    ["--optimizer adamw --clip-norm 0.5", *slow_cases("", "--clip-norm 0.5", "--clip-value 0.003")],
)
@pytest.mark.parametrize("num_samples", [12, pytest.param(16, marks=pytest.mark.slow)])
def test_powers_of_two_move_no_bit(num_samples: int, extra: str) -> None:
    """MXNet reads the optimizer's factor and the clip's limit as decimals: no part of the scale may be in them."""
    flags = f"{AMP} --batch-size {num_samples} --micro-batch 4 {extra}"
    plain = context_of(flags)
    expected = [advance(plain, number, Scale(), num_samples) for number in range(2)]
    for power in (-3, 6, 10, 16):
        context = context_of(flags)
        for number, result in enumerate(expected):
            found = advance(context, number, Scale(scale=2.0**power), num_samples)
            assert (found.loss, found.gradient_norm) == (result.loss, result.gradient_norm)
        assert_equal(everything(context), everything(plain))


@needs_bf16
def test_overflows_in_bfloat16() -> None:
    again_in_bfloat16(__file__, "test_overflows_are_as_if and device and ema")


@needs_bf16
@pytest.mark.slow  # above is the case in which most is computed
def test_all_overflows_and_scales_in_bfloat16() -> None:
    again_in_bfloat16(__file__, "test_overflows_are_as_if or test_powers_of_two")


@pytest.mark.parametrize("flags", ["", "--devices cpu:0,1", "--micro-batch 16"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_picture_leaves_nothing_behind(flags: str, bad: float) -> None:
    """Neither in the weights nor in running statistics, which the forward pass has moved already."""
    context = context_of(FLAGS + "--ema 0.9 " + flags)
    size = 16 if "16" in flags else 4
    for number in range(2):
        step.train_step(context, batches(16, size, number), lambda batch: None, number, 0.05, Scale())
    before = everything(context)
    poisoned = batches(16, size, 2)
    poisoned[-1].arrays["data"][0, 0, 0, 0] = bad
    result = step.train_step(context, poisoned, lambda batch: None, 2, 0.05, Scale())
    assert not result.applied
    assert_equal(everything(context), before)


def test_skipped_gradients_do_not_count_in_the_next_step() -> None:
    """Its one micro-batch leaves the second device idle, with the gradients of the step before."""
    context, plain = context_of(FLAGS + "--devices cpu:0,1"), context_of(FLAGS + "--devices cpu:0,1")
    loss = Loss(mx.cpu(1))
    loss.overflows = True
    assert not advance(with_loss(context, loss), 0, Scale()).applied
    assert advance(context, 1, Scale(), num_samples=4).applied
    advance(plain, 1, Scale(), num_samples=4)
    assert_equal(everything(context), everything(plain))


def test_a_loss_that_is_no_number_is_skipped_though_its_gradients_are_finite() -> None:
    def loss(output: Any, label: Any) -> Any:
        return mx.gluon.loss.SoftmaxCrossEntropyLoss()(output, label) * 1 + mx.nd.BlockGrad(
            mx.nd.log(0 * label - 1)
        )

    context = with_loss(context_of(FLAGS + "--devices cpu:0,1"), loss)
    before = everything(context)
    assert not advance(context, 0, Scale()).applied
    assert_equal(everything(context), before)


def test_bad_steps_are_counted_in_a_row() -> None:
    """An overflow that a smaller scale may cure is skipped, but not bad."""

    def after(progress: state.TrainState, *applied: bool) -> state.TrainState:
        for each in applied:
            result = SimpleNamespace(applied=each, weight=16.0, scale=progress.scale.updated(each))
            progress = progress.after_step(result)
        return progress

    plain = after(state.TrainState(0, Scale()), False, False, True, False)
    assert (plain.skipped_steps, plain.bad_steps_in_a_row, plain.step) == (3, 1, 4)
    scaled = after(state.TrainState(0, Scale(scale=4.0, dynamic=True)), False, False)
    assert (scaled.scale.scale, scaled.bad_steps_in_a_row) == (1.0, 0)
    scaled = after(scaled, False, False)
    assert (scaled.skipped_steps, scaled.bad_steps_in_a_row) == (4, 2)


def linear(num_classes: int) -> Any:
    return mx.gluon.nn.Dense(num_classes)


@pytest.mark.parametrize("clip", ["", "--clip-norm 0.7", "--clip-norm 1e6", "--clip-value 0.02"])
@pytest.mark.parametrize("devices", ["cpu:0", "cpu:0,1"])
@pytest.mark.parametrize("scale", [1.0, 4096.0])
def test_clipping_is_numpy_s(clip: str, devices: str, scale: float) -> None:
    """The mean gradient over 10 samples as 4 + 4 + 2, clipped after it is unscaled, moves the weights at rate 0.05."""
    flags = f"--batch-size 10 --micro-batch 4 --model {__name__}:linear --momentum 0 --weight-decay 0 "
    context = context_of(flags + f"--devices {devices} {clip}")
    weight, bias = (p.data().asnumpy().astype("float64") for p in context.trainer.parameters)
    data, label = (
        np.concatenate([batch.arrays[part] for batch in batches(10, 4, 3)]) for part in ("data", "label")
    )
    flat = data.reshape(10, -1).astype("float64")
    shares = np.exp(flat @ weight.T + bias)
    errors = shares / shares.sum(axis=1, keepdims=True) - np.eye(CLASSES)[label.astype(int)]
    gradients = [errors.T @ flat / 10, errors.mean(axis=0)]
    norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients))

    result = step.train_step(context, batches(10, 4, 3), lambda batch: None, 0, 0.05, Scale(scale=scale))
    assert result.gradient_norm == pytest.approx(norm, rel=1e-4)
    kind, limit = (clip.split() or ["", "0"])[0], float((clip.split() or ["", "0"])[1])
    if kind == "--clip-norm":
        gradients = [gradient * min(1.0, limit / norm) for gradient in gradients]
    elif kind == "--clip-value":
        assert max(abs(gradient).max() for gradient in gradients) > limit
        gradients = [np.clip(gradient, -limit, limit) for gradient in gradients]
    for parameter, before, gradient in zip(context.trainer.parameters, (weight, bias), gradients):
        for array in parameter.list_data():
            np.testing.assert_allclose(array.asnumpy(), before - 0.05 * gradient, rtol=1e-4, atol=1e-6)


def test_the_norm_of_many_numbers() -> None:
    """Adding up squares one by one in float32 would stop at 2**24."""
    assert precision.l2_norm([mx.nd.ones((5000, 8000)), mx.nd.ones((3,))]) == pytest.approx(
        40_000_003**0.5, rel=1e-6
    )
    assert not precision.all_finite([mx.nd.ones(3), mx.nd.array([1, np.nan])])
    assert not precision.all_finite([mx.nd.array([[np.inf]]), mx.nd.ones(3)])


@pytest.mark.parametrize(
    ("amp", "wanted", "expected"),
    [
        ("off", "auto", Scale()),
        ("bf16", "auto", Scale()),
        ("fp16", "auto", Scale(2.0**16, dynamic=True)),
        ("off", "dynamic", Scale(2.0**16, dynamic=True)),
        ("fp16", "128", Scale(128.0)),
    ],
)
def test_what_the_flag_means(amp: str, wanted: str, expected: Scale) -> None:
    assert precision.initial_loss_scale(amp, wanted) == expected
