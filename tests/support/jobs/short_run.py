"""A run on digits that takes seconds, saves often, and always ends with the same weights."""

from __future__ import annotations

from pathlib import Path

from tests.support.commands import Command
from tests.support.runs import has_step, newest

STEPS = 80
MIDDLE = 30  # after the first checkpoint, and seconds before the end
ALONE = [
    *("--model", "small_cnn", "--image-size", "8", "--val-resize", "8", "--augment", "none", "--lr", "0.05"),
    *("--batch-size", "32", "--micro-batch", "8", "--epochs", "20", "--max-steps", str(STEPS)),
    *("--checkpoint-steps", "20", "--threads", "1"),
]
FLAGS = [*ALONE, "--silence-timeout", "3", "--start-timeout", "30"]
ENDLESS = ["--max-steps", "100000", "--epochs", "10000"]


def run_alone(command: Command, digits: Path, out: Path) -> Path:
    """The same run of one process, whose weights those of all jobs are."""
    data = ["--train", digits / "train.rec", "--val", digits / "val.rec"]
    done = command("mxtrain.fit", *data, "--out", out, *ALONE)
    assert done.returncode == 0, done.stderr
    return out


def is_under_way(out: Path) -> bool:
    return has_step(out, MIDDLE)


def assert_same_weights(out: Path, expected: Path) -> None:
    assert newest(out).name == newest(expected).name == f"step-{STEPS:08}"
    for name in ("weights.params", "optimizer.params", "grid.params"):
        assert (newest(out) / name).read_bytes() == (newest(expected) / name).read_bytes(), name
