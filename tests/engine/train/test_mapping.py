"""The mapping of micro-batches to devices does not change the curve: 1 to 4 devices, any cut, any net."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mxtrain import native
from mxtrain.optim import precision
from mxtrain.runtime import mx
from mxtrain.train import state, step
from tests.support.amp import AMP, again_in_bfloat16, needs_bf16
from tests.support.breadth import slow_cases
from tests.support.nets.training_steps import CLASSES, arrays, assert_equal, batches, context_of

nn = mx.gluon.nn
SAMPLES = 24
# Sums in another order differ in float32's last bits; one of those may move a bfloat16 to the next.
TOLERANCE = 1e-5 if AMP == "--amp off" else 3e-3


def _net(num_classes: int, *middle: Any) -> Any:
    """Without a bias before the norm: its gradient is all rounding, which Adam makes as large as any other."""
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Conv2D(6, 3, strides=2, use_bias=False), *middle, nn.Activation("relu"))
        net.add(nn.Flatten(), nn.Dense(num_classes))
    return net


def plain(num_classes: int) -> Any:
    return _net(num_classes)


def norm(num_classes: int) -> Any:
    return _net(num_classes, nn.BatchNorm())


def dropout(num_classes: int) -> Any:
    return _net(num_classes, nn.Dropout(0.3))


def norm_and_dropout(num_classes: int) -> Any:
    return _net(num_classes, nn.BatchNorm(), nn.Dropout(0.3))


def first_norm_without_parameters(num_classes: int) -> Any:
    """As every resnet v2 begins."""
    net = nn.HybridSequential()
    net.add(nn.BatchNorm(scale=False, center=False), norm(num_classes))
    return net


NETS = ("plain", "norm", "dropout", "norm_and_dropout", "first_norm_without_parameters")


def curve(net: str, flags: str, num_steps: int, sizes: Any = lambda number: SAMPLES) -> tuple[Any, Any]:
    """Losses and gradient norms of every step, and the weights at the end; `sizes` gives each step its samples."""
    context = context_of(f"--model {__name__}:{net} --batch-size {SAMPLES} {AMP} {flags}")
    micro_batch = int(flags.split("--micro-batch ")[1].split()[0])
    progress, found = state.TrainState(0, precision.LossScale()), []
    for number in range(num_steps):
        given_batches = batches(sizes(number), micro_batch, number)
        result = step.train_step(context, given_batches, lambda batch: None, number, 0.02, progress.scale)
        assert result.num_samples == sizes(number)
        progress = progress.after_step(result)
        found.append((result.loss, result.gradient_norm))
    assert progress.skipped_steps == 0
    return np.array(found), arrays(context)


def assert_same(first: tuple[Any, Any], second: tuple[Any, Any], tolerance: float = TOLERANCE) -> None:
    np.testing.assert_allclose(first[0], second[0], rtol=tolerance)
    for name, value in second[1].items():
        np.testing.assert_allclose(first[1][name], value, rtol=100 * tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize(
    ("net", "num_steps"),
    [
        ("first_norm_without_parameters", 12),
        ("norm_and_dropout", 24),  # which has what the others have
        *slow_cases(("plain", 12), ("norm", 12), ("dropout", 12)),
        *(pytest.param(net, 50, marks=pytest.mark.slow) for net in NETS),
    ],
)
def test_steps_on_one_two_and_four_devices(net: str, num_steps: int) -> None:
    """Four micro-batches: accumulate 4, 2 devices that accumulate 2, 4 devices. The net with most is tried longest."""
    one, two, four = (
        curve(net, f"--micro-batch 6 --devices cpu:{devices}", num_steps)
        for devices in ("0", "0,1", "0,1,2,3")
    )
    assert_same(two, one, 0)
    assert_same(four, one, 0)


def losses_and_statistics(flags: str, num_samples: int) -> tuple[Any, Any]:
    """Losses and accuracies of steps at a learning rate of 0, so that all but running statistics stays as it is."""
    context = context_of(f"--model {__name__}:norm_and_dropout --batch-size {SAMPLES} {AMP} {flags}")
    micro_batch, found = int(flags.split("--micro-batch ")[1].split()[0]), []
    for number in range(3):
        given_batches = batches(num_samples, micro_batch, number)
        result = step.train_step(
            context, given_batches, lambda batch: None, number, 0.0, precision.LossScale()
        )
        found.append((result.loss, result.means["accuracy"]))
    return found, {name: value for name, value in arrays(context).items() if "running" in name}


@pytest.mark.parametrize(
    ("micro_batch", "num_samples"), [(2, 23), (7, 23), *slow_cases((6, 24), (5, 24), (3, 10))]
)
def test_losses_and_statistics_of_the_same_weights_have_the_same_bits(
    micro_batch: int, num_samples: int
) -> None:
    """Also where the last micro-batch is shorter, and where a step has fewer of them than others."""
    flags = f"--micro-batch {micro_batch} --devices cpu:"
    one, two, three = (
        losses_and_statistics(flags + devices, num_samples) for devices in ("0", "0,1", "0,1,2")
    )
    assert len({loss for loss, _ in one[0]}) == 3, "the pictures of each step are others"
    for other in (two, three):
        assert other[0] == one[0]
        assert len(other[1]) == 2
        assert_equal(other[1], one[1])


@pytest.mark.skipif(native.add_on_grid is None, reason="mxtrain was installed without a C compiler")
def test_numpy_makes_the_curve_of_the_part_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a host that has no C compiler, which may be a worker beside others that have."""
    flags = "--micro-batch 5 --optimizer adamw --devices cpu:0,1"
    expected = curve("norm_and_dropout", flags, 6)
    for function in ("add_on_grid", "block_maxima"):
        monkeypatch.setattr(native, function, None)
    assert_same(curve("norm_and_dropout", flags, 6), expected, 0)


@pytest.mark.parametrize(
    "extra", ["--clip-norm 0.5", *slow_cases("", "--weight-decay 0.01 --label-smoothing 0.1")]
)
def test_micro_batches_are_one_batch_without_norm(extra: str) -> None:
    whole = curve("plain", f"--micro-batch {SAMPLES} {extra}", 5)
    for micro_batch in (12, 5, 1):
        assert_same(curve("plain", f"--micro-batch {micro_batch} {extra}", 5), whole)


SPACE = {
    "net": st.sampled_from(NETS),
    "micro_batch": st.integers(2, SAMPLES),
    "sizes": st.lists(st.integers(1, SAMPLES), min_size=2, max_size=3),
    "num_devices": st.integers(2, 4),
    "mixing": st.sampled_from(["", "--mixup 0.4", "--cutmix 1", "--mixup 0.4 --cutmix 1"]),
    "clip": st.sampled_from(["", "--clip-norm 0.1", "--clip-value 0.005"]),
    "rest": st.sampled_from(
        ["", "--label-smoothing 0.1", "--optimizer adamw", "--ema 0.9", "--kvstore local"]
    ),
}


def assert_mapping_moves_nothing(
    net: str, micro_batch: int, sizes: list[int], num_devices: int, mixing: str, clip: str, rest: str
) -> None:
    """Steps of any size, as the last of an epoch is short; and each mapping repeats to the bit."""
    flags = f"--micro-batch {micro_batch} {mixing} {clip} {rest}"
    spread = flags + " --devices cpu:" + ",".join(map(str, range(num_devices)))
    one = curve(net, flags, len(sizes), sizes.__getitem__)
    many = curve(net, spread, len(sizes), sizes.__getitem__)
    again = curve(net, spread, len(sizes), sizes.__getitem__)
    assert_same(many, one, 0)
    np.testing.assert_array_equal(many[0], again[0])
    for name, value in many[1].items():
        np.testing.assert_array_equal(again[1][name], value, err_msg=name)


@settings(max_examples=6 if AMP == "--amp off" else 3, deadline=None, derandomize=True)
@given(**SPACE)
def test_a_few_mappings(**mapping: Any) -> None:
    assert_mapping_moves_nothing(**mapping)


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(max_examples=150, deadline=None)
@given(**SPACE)
def test_many_mappings(**mapping: Any) -> None:
    assert_mapping_moves_nothing(**mapping)


@needs_bf16
def test_the_same_in_bfloat16() -> None:
    """In a process of its own: once patched, MXNet's operators stay so."""
    again_in_bfloat16(__file__, "test_a_few_mappings or test_the_short_step")


@needs_bf16
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_many_mappings_in_bfloat16() -> None:
    again_in_bfloat16(__file__, "test_many_mappings or test_steps_on")


def test_the_short_step_is_the_mean_of_its_samples() -> None:
    """10 of 24 samples as 4 + 4 + 2, mixed and smoothed: the gradient against numpy, and not a mean of means."""
    flags = f"{AMP} --mixup 0.4 --label-smoothing 0.2 --momentum 0 --weight-decay 0 --micro-batch 4"
    context = context_of(f"--model tests.engine.train.test_step_scale:linear --batch-size {SAMPLES} {flags}")
    weight, bias = (p.data().asnumpy().astype("float64") for p in context.trainer.parameters)
    flat, soft = [], []
    for batch in batches(10, 4, 0):
        mixed = context.task.mix(batch.arrays["data"], batch.arrays["label"], 5, batch.request.position)
        target = np.eye(CLASSES)[batch.arrays["label"].astype(int)] * (1 - mixed.fraction[:, None])
        target += np.eye(CLASSES)[mixed.label.astype(int)] * mixed.fraction[:, None]
        flat.append(batch.arrays["data"].reshape(len(target), -1).astype("float64"))
        soft.append(0.8 * target + 0.2 / CLASSES)
    samples, targets = np.concatenate(flat), np.concatenate(soft)
    powers = np.exp(samples @ weight.T + bias)
    shares = powers / powers.sum(axis=1, keepdims=True)

    result = step.train_step(context, batches(10, 4, 0), lambda batch: None, 5, 0.05, precision.LossScale())
    assert result.loss == pytest.approx(-(targets * np.log(shares)).sum() / 10, rel=TOLERANCE)
    errors = shares - targets
    gradient = errors.T @ samples / 10
    of_means = sum(
        errors[each].T @ samples[each] / len(errors[each]) / 3 for each in np.split(np.arange(10), [4, 8])
    )
    moved = (weight - arrays(context)["weight"]) / 0.05

    def distance(other: np.ndarray) -> float:
        return float(np.linalg.norm(moved - other) / np.linalg.norm(gradient))

    assert distance(gradient) < (1e-4 if AMP == "--amp off" else 0.01) and distance(of_means) > 0.1
