"""The alarm is raised where a run loses what it has learnt, and nowhere else."""

from __future__ import annotations

from typing import Iterable

import numpy as np
import pytest

from mxtrain.train.telemetry import loss_alarm
from mxtrain.train.telemetry.loss_alarm import WINDOW, LossAlarm


def levels(losses: Iterable[float]) -> list[str]:
    """The changes of level, in order."""
    now, found = LossAlarm(), ["calm"]
    for loss in losses:
        now = loss_alarm.updated(now, float(loss))
        if now.level != found[-1]:
            found.append(now.level)
    return found


def noisy(levels: np.ndarray, spread: float = 0.3) -> np.ndarray:
    return levels * np.exp(np.random.default_rng(0).normal(0, spread, len(levels)))


def falling(num_steps: int, to: float) -> np.ndarray:
    return 2.3 * (to / 2.3) ** np.linspace(0, 1, num_steps)


def test_learning_is_calm_and_so_is_learning_nothing() -> None:
    assert levels(noisy(falling(500, to=0.05))) == ["calm"]
    assert levels(noisy(np.full(500, 2.3))) == ["calm"]


def test_a_loss_that_has_as_good_as_vanished_may_rise_again() -> None:
    assert levels(noisy(np.concatenate([falling(300, to=1e-5), np.full(100, 1e-2)]))) == ["calm"]


@pytest.mark.parametrize("start", [2.3, 50.0, 1e-3])
def test_a_rise_warns_before_it_ends_the_run(start: float) -> None:
    learnt = noisy(falling(200, to=0.3)) * start
    assert levels(np.concatenate([learnt, learnt[-1] * np.geomspace(1, 100, 200)])) == [
        "calm",
        "warning",
        "diverged",
    ]


def test_a_rise_that_is_mended_is_calm_again() -> None:
    bump = np.concatenate([np.full(50, 1.0), np.full(WINDOW, 5.0), np.full(50, 1.0)])
    assert levels(bump) == ["calm", "warning", "calm"]


def test_single_odd_batches_raise_no_alarm() -> None:
    losses = noisy(falling(300, to=0.3))
    losses[::7] *= 1000
    assert levels(losses) == ["calm"]


def test_a_run_whose_loss_is_lost_from_the_first_window_on_is_noticed() -> None:
    assert levels(np.geomspace(2.3, 1e6, 200))[-1] == "diverged"


def test_losses_below_zero_raise_no_alarm() -> None:
    assert (
        levels(np.zeros(100))
        == levels(np.linspace(-5, -1, 100))
        == levels(np.linspace(-1, 5, 100))
        == ["calm"]
    )


def test_the_message_names_the_medians() -> None:
    now = LossAlarm()
    for loss in [0.5] * WINDOW + [20.0] * WINDOW:
        now = loss_alarm.updated(now, loss)
    assert loss_alarm.message(now) == "the loss's median over 20 steps is 20, it has been 0.5"
