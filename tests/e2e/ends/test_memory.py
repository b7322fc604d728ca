"""What fits into memory while it trains fits too when it is evaluated."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.commands import ROOT
from tests.support.processes import peak_memory

FLAGS = ["--model", "small_cnn", "--image-size", "256", "--batch-size", "4", "--micro-batch", "1"]


def peak(module: str, *arguments: object) -> float:
    """The megabytes that a command takes at most."""
    return peak_memory.peak([sys.executable, "-m", module, *arguments], cwd=ROOT)


@pytest.mark.slow  # tests/engine/train/test_evaluation.py: the net sees training's micro-batches
@pytest.mark.timeout(300)
def test_an_evaluation_takes_no_more_memory_than_training(shapes: Path, tmp_path: Path) -> None:
    """64 pictures at once would take three times as much."""
    train = ["--train", shapes / "train.rec", "--max-steps", "2", "--log", "none", *FLAGS]
    training = peak("mxtrain.fit", *train, "--out", tmp_path / "without")
    val = ["--val", shapes / "train.rec"]
    assert peak("mxtrain.fit", *train, *val, "--out", tmp_path / "with") < 1.3 * training
    assert peak("mxtrain.evaluate", *val, "--run", tmp_path / "with") < 1.3 * training
