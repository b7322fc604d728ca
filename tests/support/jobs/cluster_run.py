"""The run over a cluster that most tests make, on digits."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.support.runs import records

FLAGS = [
    *("--model", "benchmarks.same_curve.nets:with_both", "--image-size", "16", "--val-resize", "16"),
    *("--augment", "pad_crop:pad=2", "--batch-size", "32", "--micro-batch", "8", "--epochs", "3"),
    *("--max-steps", "54", "--lr", "0.01", "--threads", "1"),
]
CLUSTER = ["--kvstore", "dist_sync", "--num-workers", "2", "--start-timeout", "40"]


def flags(digits: Path, out: Path, *more: str) -> list[str]:
    return [
        "--train",
        str(digits / "train.rec"),
        "--val",
        str(digits / "val.rec"),
        "--out",
        str(out),
        *FLAGS,
        *more,
    ]


def losses(out: Path) -> np.ndarray:
    trained = records(out, "train")
    assert [record["step"] for record in trained] == list(range(1, 55))
    return np.array([record["loss"] for record in trained])


def weights(out: Path) -> bytes:
    return (out / "checkpoints" / "step-00000054" / "weights.params").read_bytes()
