"""The learning benchmark's two frameworks: the same losses from the same weights, pixels and rates."""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from benchmarks import curves
from benchmarks.harness import commands, environments, processes
from benchmarks.learn import __main__ as learn
from benchmarks.learn import folds
from benchmarks.learn.judge import FIRST_STEPS_BAR
from benchmarks.learn.sides import OURS, TORCH, Task, train
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.runtime import mx

FEW_STEPS = ("--max-steps", 4)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", learn.FIRST_STEPS_OF)
def test_torch_makes_the_same_first_steps(optimizer: str, tmp_path: Path) -> None:
    torch = environments.interpreter(environments.FOLDER.resolve(), learn.ENVIRONMENT)
    if torch is None:
        pytest.skip("torch is not installed: python -m benchmarks.learn --setup")
    recipe = (*learn.FIRST_STEPS, *learn.FIRST_STEPS_OF[optimizer], *FEW_STEPS)
    packs = folds.make(tmp_path / "digits")[0]
    task = Task("digits", [packs, packs], recipe)
    ours, torchs = (train(task, side, 0, tmp_path, torch) for side in (OURS, TORCH))
    assert len(torchs.losses) == 4
    assert curves.relative_difference(torchs.losses, ours.losses).max() <= FIRST_STEPS_BAR
    other_seed = train(task, OURS, 1, tmp_path, torch)
    assert curves.relative_difference(torchs.losses, other_seed.losses).min() > FIRST_STEPS_BAR


@pytest.mark.slow  # of a benchmark alone
def test_the_first_weights_are_the_runs(tmp_path: Path) -> None:
    """A step at a rate of almost nothing leaves them in the checkpoint, all but the running statistics."""
    with RecordWriter(tmp_path / "noise.rec") as writer:
        for number, pixels in enumerate(np.random.default_rng(0).integers(0, 255, (9, 32, 32, 3))):
            writer.write(number, number, cv2.imencode(".png", pixels)[1].tobytes())
    train_on = ("--train", tmp_path / "noise.rec", "--num-classes", 9, "--image-size", 32, "--batch-size", 8)
    flags = (*train_on, "--model", "benchmarks.learn.nets:thin_resnet", "--lr", 1e-30)
    out = commands.fit(tmp_path / "run", *flags, "--max-steps", 1)
    processes.run(sys.executable, "-m", "benchmarks.learn.start", out, tmp_path / "start.npz")
    start = np.load(tmp_path / "start.npz")
    kept = mx.nd.load(str(next(out.glob("checkpoints/step-*/weights.params"))))
    assert list(start) == list(kept)
    for name, array in kept.items():
        if "running" not in name:
            np.testing.assert_allclose(start[name], array.asnumpy(), rtol=0, atol=1e-20)
