"""The learning benchmark: fair folds, pictures that repeat, a linear baseline that could win, bars that can fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from benchmarks.curves import Panel
from benchmarks.learn import folds, judge, linear, shapes
from benchmarks.learn.sides import BF16, OURS, TORCH, Trained
from mxtrain.data.records.record_writer import RecordWriter


def test_each_fold_holds_out_as_much_of_each_class() -> None:
    labels = np.repeat(np.arange(10), np.arange(174, 184))
    dealt = folds.deal(labels, 5)
    sizes = np.bincount(dealt)
    assert len(sizes) == 5 and sizes.sum() == len(labels) and sizes.max() - sizes.min() <= 1
    for label in range(10):
        of_class = np.bincount(dealt[labels == label], minlength=5)
        assert of_class.max() - of_class.min() <= 1
    assert np.array_equal(dealt, folds.deal(labels, 5))
    first_class = dealt[labels == 0]
    assert not np.array_equal(first_class, np.sort(first_class))


def test_pictures_repeat_and_differ() -> None:
    num_classes = len(shapes.CLASSES)
    first, again, same_class = (shapes.picture(number) for number in (3, 3, 3 + num_classes))
    assert first.shape == (shapes.SIDE, shapes.SIDE, 3) and first.dtype == np.uint8
    assert np.array_equal(first, again)
    assert np.abs(first.astype(int) - same_class).mean() > 10


@pytest.mark.parametrize("shape", shapes.SHAPES)
def test_a_shape_is_wholly_in_the_picture(shape: str) -> None:
    for seed in range(20):
        mask = shapes._shape(shape, np.random.default_rng(seed))
        assert 0.01 < mask.mean() < 0.3
        assert not any(edge.any() for edge in (mask[0], mask[-1], mask[:, 0], mask[:, -1]))


def pack(path: Path, pictures: list[Any]) -> Path:
    with RecordWriter(path) as writer:
        for number, picture in enumerate(pictures):
            _, png = cv2.imencode(".png", picture)
            writer.write(number, number % 2, png.tobytes())
    return path


def test_the_linear_baseline_finds_what_is_linear(tmp_path: Path) -> None:
    """So a low figure for the shapes is theirs, not the baseline's."""
    rng = np.random.default_rng(0)
    bright = [
        (rng.integers(0, 100, (32, 32, 3)) + 100 * (number % 2)).astype(np.uint8) for number in range(60)
    ]
    found = linear.accuracies(pack(tmp_path / "a.rec", bright[:40]), pack(tmp_path / "b.rec", bright[40:]))
    assert found == {"pixels": 1.0, "colour histogram": 1.0}


def learnt(**accuracies: list[float]) -> dict[str, judge.Results]:
    sides = {OURS: [0.99, 0.995], BF16: [0.991, 0.993], TORCH: [0.99, 0.992]}
    by_name = {"ours": OURS, "bf16": BF16, "torch": TORCH}
    digits = {**sides, **{by_name[name]: found for name, found in accuracies.items()}}
    return {
        task: {side: [Trained(np.ones(3), one) for one in found] for side, found in each.items()}
        for task, each in {"digits": digits, "shapes": sides}.items()
    }


def first_steps(apart: float) -> list[Panel]:
    return [Panel("first steps", {OURS: np.ones(3), TORCH: np.array([1, 1 + apart, 1])})]


LINEAR = {"pixels": 0.12}


def test_all_bars_are_met_when_they_are() -> None:
    text, all_met = judge.bars(first_steps(1e-6), learnt(), LINEAR)
    assert all_met and "MISSED" not in text and text.count("| met |") == 9


def test_another_net_shows_in_the_first_loss() -> None:
    """Which a net without dropout gives before any update."""
    found = learnt()
    found["shapes"][TORCH][1] = Trained(np.full(3, 1.003), found["shapes"][TORCH][1].accuracy)
    text, all_met = judge.bars(first_steps(0), found, LINEAR)
    failed = [each for each in text.splitlines() if "MISSED" in each]
    assert (
        not all_met
        and len(failed) == 1
        and failed[0].startswith("| shapes: relative difference of the first")
    )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((first_steps(2e-4), learnt(), LINEAR), "first steps: largest"),
        ((first_steps(0), learnt(ours=[0.98, 0.995]), LINEAR), "digits: mean accuracy"),
        ((first_steps(0), learnt(torch=[0.98, 0.982]), LINEAR), "digits, torch"),
        ((first_steps(0), learnt(bf16=[1.0, 1.0]), LINEAR), "digits, mxtrain, bf16"),
        ((first_steps(0), learnt(ours=[0.993, 0.994], bf16=[0.993, 0.994]), LINEAR), "digits, torch"),
        ((first_steps(0), learnt(), {"pixels": 0.5}), "shapes, linear classifier of the pixels"),
    ],
)
def test_each_bar_can_fail(arguments: Any, line: str) -> None:
    text, all_met = judge.bars(*arguments)
    failed = [each for each in text.splitlines() if "MISSED" in each]
    assert not all_met and len(failed) == 1 and failed[0].startswith(f"| {line}")


def test_the_table_shows_means_and_extremes() -> None:
    text = judge.accuracies(learnt(), LINEAR)
    assert "| mxtrain | 99.25% (99.00% to 99.50%) | 99.25% (99.00% to 99.50%) |" in text
    assert "| linear classifier of the pixels |  | 12.00% |" in text
