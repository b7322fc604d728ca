"""A run on digits that takes seconds, saves often, and always ends with the same weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Command
from tests.support.made_once import made_once
from tests.support.runs import has_step, newest, records

STEPS = 60
MIDDLE = 25  # after the first checkpoint, and seconds before the end
ALONE = [
    *("--model", "small_cnn", "--image-size", "8", "--val-resize", "8", "--augment", "none", "--lr", "0.05"),
    *("--batch-size", "32", "--micro-batch", "8", "--epochs", "20", "--max-steps", str(STEPS)),
    *("--checkpoint-steps", "20", "--threads", "1"),
]
FLAGS = [*ALONE, "--silence-timeout", "3", "--start-timeout", "30"]
ENDLESS = ["--max-steps", "100000", "--epochs", "10000"]


def run_alone(factory: pytest.TempPathFactory, command: Command, digits: Path) -> Path:
    """The same run of one process, whose weights those of all jobs are; no fault disturbs it."""

    def make(folder: Path) -> None:
        data = ["--train", digits / "train.rec", "--val", digits / "val.rec"]
        done = command("mxtrain.fit", *data, "--out", folder / "run", *ALONE)
        assert done.returncode == 0, done.stderr
        assert records(folder / "run", "train")[-1]["loss"] < 1

    return made_once(factory, "short-run-alone", make) / "run"


def is_under_way(out: Path) -> bool:
    return has_step(out, MIDDLE)


def assert_same_weights(out: Path, expected: Path) -> None:
    assert newest(out).name == newest(expected).name == f"step-{STEPS:08}"
    for name in ("weights.params", "optimizer.params", "grid.params"):
        assert (newest(out) / name).read_bytes() == (newest(expected) / name).read_bytes(), name
