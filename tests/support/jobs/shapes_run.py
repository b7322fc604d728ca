"""The run that most tests of the command make, on the small data set of the fixture shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.runs import records

FLAGS = [
    *("--model", "small_cnn", "--image-size", "24", "--val-resize", "24", "--augment", "pad_crop:pad=2+flip"),
    *("--batch-size", "16", "--micro-batch", "8", "--devices", "cpu:0,1"),
    *("--optimizer", "adamw", "--lr", "0.01", "--epochs", "4", "--log", "none"),
]


def flags(shapes: Path, out: Path) -> list[str]:
    return ["--train", str(shapes / "train.rec"), "--val", str(shapes / "val.rec"), "--out", str(out), *FLAGS]


def curve(out: Path) -> list[tuple[Any, ...]]:
    return [(r["kind"], r["step"], r.get("loss"), r.get("lr"), r.get("val_loss")) for r in records(out)]
