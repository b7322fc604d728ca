"""A checkpoint holds all that the next step needs, for every optimizer and number of devices."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.checkpoint import directory
from mxtrain.config.components.optimizers import OPTIMIZERS
from mxtrain.core.errors import DataError, Diverged
from mxtrain.optim import precision
from mxtrain.runtime import mx
from mxtrain.train import state
from mxtrain.train.step_end import StepResult
from tests.support.breadth import slow_cases
from tests.support.nets.training_steps import (
    CLASSES,
    advance,
    arrays,
    assert_equal,
    context_of_run,
    run_of,
    save,
)

# No state of a parameter, one, two and three of them, and numbers of its own.
FEW = ("sgd:momentum=0", "sgd", "adam", "adadelta", "ftml", "nadam", "lamb")


@pytest.mark.parametrize(
    ("optimizer", "devices"),
    [
        *((optimizer, "cpu:0,1") for optimizer in FEW),
        ("mxnet.optimizer:Nadam", "cpu:0"),  # which also counts in an attribute of its own
        *slow_cases(*((each, "cpu:0,1") for each in OPTIMIZERS if each not in FEW)),
        *slow_cases(*((each, "cpu:0") for each in OPTIMIZERS)),  # a device alone is the easier case
    ],
)
def test_a_resumed_run_is_the_same_to_the_bit(tmp_path: Path, optimizer: str, devices: str) -> None:
    run = run_of(tmp_path, "--optimizer", optimizer, "--devices", devices)
    context = context_of_run(run, CLASSES)
    progress, _ = advance(context, state.restore(context, None), 2)
    save(run, context, progress)
    _, expected = advance(context, progress, 2)

    again = context_of_run(run, CLASSES)
    _, losses = advance(again, state.restore(again, directory.newest(tmp_path / "checkpoints")), 2)
    assert losses == expected
    assert_equal(arrays(again), arrays(context))


def test_a_checkpoint_without_newer_keys_is_read(tmp_path: Path) -> None:
    run = run_of(tmp_path, "--optimizer", "mxnet.optimizer:Nadam")
    context = context_of_run(run, CLASSES)
    progress, _ = advance(context, state.restore(context, None), 2)
    save(run, context, progress)
    found = directory.newest(tmp_path / "checkpoints")
    assert found is not None and set(found[1].pop("optimizer_numbers")) == {"m_schedule"}
    assert found[1].pop("bad_records") == []
    restored = state.restore(context_of_run(run, CLASSES), found)
    assert (restored.step, restored.bad_records) == (2, ())


def test_a_resume_on_three_devices_is_the_same_to_the_bit(tmp_path: Path) -> None:
    """A mean over three equal copies is not the copy: what is saved is what one device holds."""
    run = run_of(tmp_path, "--devices", "cpu:0,1,2", "--micro-batch", "3", "--batch-size", "9")
    context = context_of_run(run, CLASSES)
    progress, _ = advance(context, state.restore(context, None), 3)
    save(run, context, progress)
    again = context_of_run(run, CLASSES)
    state.restore(again, directory.newest(tmp_path / "checkpoints"))
    assert_equal(arrays(again), arrays(context))


def test_weights_that_are_not_finite_are_not_saved(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    context = context_of_run(run, CLASSES)
    context.trainer.parameters[0].list_data()[0][:] = float("nan")
    with pytest.raises(Diverged, match="--lr"):
        save(run, context, state.TrainState(1, precision.LossScale(), None))
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize("has_grid", [True, False])
def test_a_resume_on_more_devices_is_the_same_to_the_bit(tmp_path: Path, has_grid: bool) -> None:
    """Also without a grid, as after a step out of its reach: both begin one with the same micro-batch."""
    run = run_of(tmp_path, "--optimizer", "adamw")
    context = context_of_run(run, CLASSES)
    progress, _ = advance(context, state.restore(context, None), 2)
    save(run, context, progress)
    saved = directory.newest(tmp_path / "checkpoints")
    assert saved is not None
    if not has_grid:
        (saved[0] / "grid.params").unlink()
    found = []
    for devices in ("cpu", "cpu:0,1"):
        run = run_of(tmp_path, "--optimizer", "adamw", "--devices", devices)
        context = context_of_run(run, CLASSES)
        progress = state.restore(context, saved)
        assert context.grid is not None and (context.grid.exponents is not None) == has_grid
        found.append((advance(context, progress, 3)[1], arrays(context)))
    assert found[1][0] == found[0][0]
    assert_equal(found[1][1], found[0][1])


class Two:
    """A worker whose only colleague's disk has `theirs`: a score or none."""

    rank, world_size, is_writer, local_workers, job = 1, 2, True, 2, ""

    def __init__(self, *theirs: float):
        self.tells = [np.array([len(theirs)]), np.array(theirs)]  # how many numbers, then which

    def sum(self, values: Any) -> Any:
        told = self.tells.pop(0)
        return values + np.pad(told, (0, len(values) - len(told)))

    def report_progress(self, phase: str | None = None, step: int | None = None) -> None: ...


def test_a_score_on_some_disks_is_restored_by_all_workers(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    context = context_of_run(run, CLASSES)
    progress, _ = advance(context, state.restore(context, None), 2)
    for mine, theirs, expected in (
        (progress, [0.3], progress.with_score(0.3)),
        (progress.with_score(0.3), [], progress.with_score(0.3)),
        (progress.with_score(0.0), [0.0], progress.with_score(0.0)),
        (progress, [], progress),
    ):
        save(run, context, mine)
        among = dataclasses.replace(context, job=dataclasses.replace(context.job, group=Two(*theirs)))
        assert state.restore(among, directory.newest(tmp_path / "checkpoints")) == expected


def test_the_loss_scale_is_restored(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    context = context_of_run(run, CLASSES)
    scale = precision.LossScale(scale=512.0, clean_steps=7, dynamic=True)
    progress, _ = advance(context, state.TrainState(0, scale, None), 1)
    save(run, context, progress)
    restored = state.restore(context, directory.newest(tmp_path / "checkpoints"))
    assert restored.scale == precision.LossScale(scale=512.0, clean_steps=8, dynamic=True)


def test_weights_of_another_net_are_refused(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    context = context_of_run(run, CLASSES)
    save(run, context, state.TrainState(1, precision.LossScale(), None))
    other = context_of_run(run_of(tmp_path, "--model", "small_resnet"), CLASSES)
    with pytest.raises(DataError, match=r"weights\.params"):
        state.restore(other, directory.newest(tmp_path / "checkpoints"))


def test_a_shared_parameter_is_saved_once() -> None:
    from mxtrain.models.parameters import weights

    net = mx.gluon.nn.HybridSequential()
    first = mx.gluon.nn.Dense(4, in_units=4)
    net.add(first, mx.gluon.nn.Dense(4, in_units=4, params=first.params))
    assert len(weights.named_parameters(net)) == 2


def test_a_step_keeps_the_records_that_were_bad_and_drops_the_score() -> None:
    result = StepResult(0.5, 0.5, 8, 1.0, True, precision.LossScale())
    before = state.TrainState(3, precision.LossScale(), score=0.5, bad_records=(1, 5)).with_score(0.75)
    after = before.after_step(result)
    assert (after.step, after.score, after.bad_records, after.best) == (4, None, (1, 5), before.best)


def test_the_loss_scale_halves_and_doubles() -> None:
    scale = precision.LossScale(scale=4.0, dynamic=True, growth_interval=2)
    assert scale.updated(False).scale == 2.0
    assert scale.updated(True).scale == 4.0
    assert scale.updated(True).updated(True).scale == 8.0
    assert scale.updated(True).updated(False).updated(True).scale == 2.0, "an overflow starts the count anew"
    floor = precision.LossScale(scale=1.0, dynamic=True)
    assert floor.updated(False).scale == 1.0
    assert precision.LossScale(scale=3.0).updated(False).scale == 3.0, "a fixed scale stays"
