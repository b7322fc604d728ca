"""Averaged weights: their arithmetic, their checkpoints, and the commands that use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.checkpoint import directory
from mxtrain.models.parameters import weights
from mxtrain.optim import ema, precision
from mxtrain.runtime import mx
from mxtrain.train import state, step
from mxtrain.train.context import TrainContext
from mxtrain.train.net import build_net
from tests.support.nets.training_steps import CLASSES, advance, arrays, batches, context_of_run, run_of


def ema_of(context: TrainContext) -> Any:
    return context.companions[directory.AVERAGES]


def save(run: object, context: TrainContext, progress: state.TrainState, out: Path) -> None:
    directory.write(out / "checkpoints", state.snapshot(context, progress))


@pytest.mark.parametrize("devices", ["cpu:0", "cpu:0,1"])
def test_averages_are_those_of_numpy(tmp_path: Path, devices: str) -> None:
    """Weights and running statistics are averaged, at first with a lower decay than --ema."""
    context = context_of_run(run_of(tmp_path, "--ema", "0.3", "--devices", devices), CLASSES)
    expected = {name: value.astype("float64") for name, value in arrays(context).items()}
    progress = state.TrainState(0, precision.LossScale())
    for count, decay in enumerate([2 / 11, 3 / 12, 0.3, 0.3], start=1):
        progress, _ = advance(context, progress, 1)
        assert ema.decay_after(0.3, count) == pytest.approx(decay)
        for name, value in arrays(context).items():
            expected[name] = decay * expected[name] + (1 - decay) * value
    for name, value in expected.items():
        found = ema_of(context).averages[name]
        assert found.context == mx.cpu(0) and found.dtype == np.float32
        np.testing.assert_allclose(found.asnumpy(), value, rtol=1e-5, atol=1e-7, err_msg=name)


def test_a_skipped_step_does_not_move_the_averages(tmp_path: Path) -> None:
    context = context_of_run(run_of(tmp_path, "--ema", "0.9"), CLASSES)
    poisoned = batches(8, 4, 0)
    poisoned[0].arrays["data"][:] = np.nan
    outcome = step.train_step(context, poisoned, lambda batch: None, 0, 0.01, precision.LossScale())
    assert not outcome.applied and ema_of(context).num_updates == 0


@pytest.mark.parametrize("devices", ["cpu:0", "cpu:0,1,2"])
def test_averages_are_in_the_net_only_inside_the_block(tmp_path: Path, devices: str) -> None:
    """On every device, and gets its weights back to the bit."""
    context = context_of_run(run_of(tmp_path, "--ema", "0.9", "--devices", devices), CLASSES)
    advance(context, state.TrainState(0, precision.LossScale()), 3)
    before = arrays(context)
    data = mx.nd.array(batches(8, 8, 9)[0].arrays["data"])
    plain = context.net(data).asnumpy()
    with context.for_evaluation():
        borrowed = context.net(data).asnumpy()
        for name, parameter in weights.named_parameters(context.net).items():
            for array in parameter.list_data():
                np.testing.assert_array_equal(array.asnumpy(), ema_of(context).averages[name].asnumpy())
    assert not np.array_equal(plain, borrowed)
    np.testing.assert_array_equal(context.net(data).asnumpy(), plain)
    for name, value in before.items():
        np.testing.assert_array_equal(arrays(context)[name], value, err_msg=name)


def test_a_resumed_run_has_the_same_averages_to_the_bit(tmp_path: Path) -> None:
    """Also after a skipped step, which is no update of the averages."""
    run = run_of(tmp_path, "--ema", "0.9")
    context = context_of_run(run, CLASSES)
    progress, _ = advance(context, state.restore(context, None), 2)
    poisoned = batches(8, 4, 0)
    poisoned[1].arrays["data"][:] = np.inf
    bad = step.train_step(context, poisoned, lambda batch: None, 2, 0.01, progress.scale)
    progress = progress.after_step(bad)
    save(run, context, progress, tmp_path)
    _, expected = advance(context, progress, 3)

    again = context_of_run(run, CLASSES)
    restored = state.restore(again, directory.newest(tmp_path / "checkpoints"))
    assert (restored.skipped_steps, restored.bad_steps_in_a_row) == (1, 1)
    assert ema_of(again).num_updates == 2
    _, losses = advance(again, restored, 3)
    assert losses == expected
    for name, value in ema_of(context).averages.items():
        np.testing.assert_array_equal(ema_of(again).averages[name].asnumpy(), value.asnumpy(), err_msg=name)


@pytest.mark.parametrize("decay", ["0", "0.9"])
def test_evaluate_and_predict_get_the_averages(tmp_path: Path, decay: str) -> None:
    run = run_of(tmp_path, "--ema", decay)
    context = context_of_run(run, CLASSES)
    progress, _ = advance(context, state.restore(context, None), 2)
    save(run, context, progress, tmp_path)
    data = mx.nd.array(batches(8, 8, 9)[0].arrays["data"])
    with context.for_evaluation():
        expected = context.net(data).asnumpy()
    found = build_net.load_trained(directory.newest(tmp_path / "checkpoints"), [mx.cpu()])
    np.testing.assert_array_equal(found(data).asnumpy(), expected)
    assert np.array_equal(context.net(data).asnumpy(), expected) is (decay == "0")
