"""A training step gives the same numbers whichever device computes which micro-batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain.models.parameters import running_statistics, weights
from mxtrain.optim import precision
from mxtrain.runtime import mx
from mxtrain.train import step
from tests.support.breadth import slow_cases
from tests.support.nets.training_steps import FLAGS, arrays, batches, context_of, train


@pytest.mark.parametrize(("optimizer", "num_steps"), [("sgd", 4), *slow_cases(("adamw", 12))])
def test_devices_do_not_move_the_curve(optimizer: str, num_steps: int) -> None:
    flags = FLAGS + f"--optimizer {optimizer}"
    alone, two, three = (
        train(context_of(flags + f" --devices {devices}"), num_steps)
        for devices in ("cpu", "cpu:0,1", "cpu:0,1,2")
    )
    assert two == alone
    assert three == alone


@pytest.mark.parametrize("devices", ["cpu", "cpu:0,1"])
def test_sums_in_float32_make_the_same_curve(devices: str, caplog: pytest.LogCaptureFixture) -> None:
    """To rounding, which is told before the first step."""
    with caplog.at_level("INFO"):
        context = context_of(FLAGS + f"--devices {devices}")
        assert context.grid is not None and caplog.messages == []
        expected = train(context, 4)
        as_they_come = context_of(FLAGS + f"--devices {devices} --sums fast")
    assert as_they_come.grid is None
    (said,) = caplog.messages
    assert "not exactly (--sums fast)" in said
    np.testing.assert_allclose(train(as_they_come, 4), expected, rtol=1e-5)


def test_devices_hold_the_same_weights_and_statistics() -> None:
    context = context_of(FLAGS + "--devices cpu:0,1,2")
    train(context, 3)
    for parameter in weights.named_parameters(context.net).values():
        first, *others = [array.asnumpy() for array in parameter.list_data()]
        for other in others:
            np.testing.assert_array_equal(first, other)


def test_an_idle_device_follows() -> None:
    """One micro-batch, two devices: the second computes nothing and must not drift."""
    alone, idle = context_of(FLAGS), context_of(FLAGS + "--devices cpu:0,1")
    losses = [train(context, 4, micro_batch=16) for context in (alone, idle)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)
    found = arrays(idle)
    for name, expected in arrays(alone).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-6, err_msg=name)


def test_running_statistics_move_once_a_step() -> None:
    """Four micro-batches leave the mean of what each alone would have left."""
    context = context_of(FLAGS)
    name, statistic = next(
        (n, p) for n, p in weights.named_parameters(context.net).items() if n.endswith("running_mean")
    )
    start = statistic.data().asnumpy()
    ended = []
    for batch in batches(16, 4, seed=0):
        statistic.data()[:] = mx.nd.array(start)
        with mx.autograd.record():
            loss = context.forward.loss(
                context.net(mx.nd.array(batch.arrays["data"])), mx.nd.array(batch.arrays["label"])
            )
        loss.backward()
        mx.nd.waitall()
        ended.append(statistic.data().asnumpy())
    fresh = context_of(FLAGS)
    train(fresh, 1)
    assert not np.allclose(ended[0], start), "the first layer's statistics moved"
    np.testing.assert_allclose(arrays(fresh)[name], np.mean(ended, axis=0), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "flags",
    [
        *slow_cases("--model cifar_resnet20_v2"),
        "--model cifar_resnet20_v2 --remat",
        "--model cifar_resnet20_v2 --micro-batch 16",
        "--freeze 0.weight,1.gamma,1.beta,3.weight,4.gamma,4.beta",
        "--freeze 0.weight,1.gamma,1.beta,3.weight,4.gamma,4.beta --devices cpu:0,1,2",
    ],
)
def test_statistics_of_norms_that_train_nothing_move(flags: str) -> None:
    """On a CPU MXNet moves them in a backward pass that nothing else asks for."""
    context = context_of(FLAGS + flags)
    before, num_samples = arrays(context), 16
    train(context, 1, int(flags.split("--micro-batch ")[1]) if "--micro-batch" in flags else 4, num_samples)
    for name, value in arrays(context).items():
        if name.endswith(running_statistics.NAME_ENDINGS):
            assert not np.array_equal(value, before[name]), name
    if "--freeze" not in flags:  # the first norm sees the pictures themselves
        pictures = batches(num_samples, num_samples, seed=0)[0].arrays["data"]
        name = "features.0.running_mean"
        np.testing.assert_allclose(arrays(context)[name], 0.1 * pictures.mean(axis=(0, 2, 3)), atol=1e-6)


@pytest.mark.parametrize(
    "flags", ["", "--model cifar_resnet20_v1", "--freeze 0.*,1.*,3.*,4.*", "--freeze *.beta"]
)
def test_other_nets_need_no_gradient_of_the_pictures(flags: str) -> None:
    assert not context_of(FLAGS + flags).needs_input_grad


def test_grad_req_add_in_a_users_net_does_not_add_up_over_steps() -> None:
    plain, adding = (
        train(context_of(FLAGS + f"--model tests.support.nets.user_net:{name}"), 6)
        for name in ("plain", "adding")
    )
    np.testing.assert_array_equal(adding, plain)


def test_the_same_run_twice_is_the_same_to_the_bit() -> None:
    first, second = (train(context_of(FLAGS + "--devices cpu:0,1"), 5) for _ in range(2))
    assert first == second


def test_every_batch_is_released_once_and_in_time() -> None:
    flags = FLAGS.replace("--micro-batch 4", "--micro-batch 2") + "--devices cpu:0,1"
    context, released, given = context_of(flags), [], batches(16, 2, seed=0)

    class Lazily(list):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            for number, batch in enumerate(given):
                assert number - len(released) <= 2, "no more than one batch a device is held"
                yield batch

    step.train_step(context, Lazily(given), released.append, 0, 0.1, precision.LossScale())
    assert {id(batch) for batch in released} == {id(batch) for batch in given} and len(released) == len(given)


def test_gradients_that_are_not_finite_are_not_applied() -> None:
    context = context_of(FLAGS + "--devices cpu:0,1")
    train(context, 1)
    before = arrays(context)
    poisoned = batches(16, 4, seed=1)
    poisoned[3].arrays["data"][0, 0, 0, 0] = np.inf
    scale = precision.LossScale(scale=8.0, dynamic=True)
    result = step.train_step(context, poisoned, lambda batch: None, 1, 0.05, scale)
    assert not result.applied and result.scale.scale == 4.0
    for name, value in arrays(context).items():
        if "running" not in name:
            np.testing.assert_array_equal(value, before[name], err_msg=name)


def test_the_loss_scale_leaves_the_update_alone() -> None:
    plain, scaled = context_of(FLAGS), context_of(FLAGS)
    step.train_step(plain, batches(16, 4, 0), lambda b: None, 0, 0.05, precision.LossScale())
    step.train_step(
        scaled, batches(16, 4, 0), lambda b: None, 0, 0.05, precision.LossScale(1024.0, dynamic=True)
    )
    found = arrays(scaled)
    for name, value in arrays(plain).items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-7, err_msg=name)


def test_seeds_of_micro_batches_differ() -> None:
    seeds = {step.micro_batch_seed(s, n, p) for s in range(5) for n in range(50) for p in range(8)}
    assert len(seeds) == 5 * 50 * 8
