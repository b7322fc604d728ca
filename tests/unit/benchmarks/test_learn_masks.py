"""The benchmark of masks: means and first losses have to be near PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.curves import Panel
from benchmarks.learn import masks
from benchmarks.learn.sides import OURS, TORCH


def panel(first: float) -> Panel:
    return Panel("seed 0", {OURS: np.array([2.0, 1.0]), TORCH: np.array([first, 3.0])})


@pytest.mark.parametrize(
    ("torchs", "first", "are_met"),
    [
        ([0.905, 0.9], 2.01, [True, True]),
        ([0.92, 0.915], 2.0, [False, True]),
        ([0.9, 0.9], 2.1, [True, False]),
    ],
)
def test_bars_are_of_means_over_seeds_and_of_first_losses(
    torchs: list[float], first: float, are_met: list[bool]
) -> None:
    found = {OURS: [0.89, 0.91], TORCH: torchs}
    assert [each.is_met for each in masks.bars(found, [panel(first), panel(2.0)])] == are_met
