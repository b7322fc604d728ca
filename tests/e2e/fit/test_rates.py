"""The rates of a whole run are those of its schedule, also when it has become longer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mxtrain import config
from mxtrain.data.loading.run_plan import RunLength
from mxtrain.optim import schedules
from tests.support.commands import Command

FLAGS = [
    *(
        "--model",
        "small_cnn",
        "--image-size",
        "24",
        "--augment",
        "none",
        "--batch-size",
        "16",
        "--log",
        "none",
    ),
    *("--optimizer", "sgd:momentum=0.5", "--decay-all", "--lr", "0.01", "--lr-base-batch", "8"),
    *("--schedule", "cosine:floor=0.1", "--warmup-epochs", "0.5"),
]


def test_a_run_made_longer_says_what_that_does(shapes: Path, tmp_path: Path, command: Command) -> None:
    expected: list[float] = []
    for epochs, warned in ((1, False), (2, True)):
        flags = ["--train", str(shapes / "train.rec"), "--out", str(tmp_path / "run"), *FLAGS]
        done = command("mxtrain.fit", *flags, "--epochs", epochs)
        assert done.returncode == 0, done.stderr
        plan = f"peak 0.02 (--lr 0.01 x 16 / 8), 2 steps of warm-up, then cosine:floor=0.1 over {4 * epochs} steps"
        assert plan in done.stderr
        assert ("has become 8 steps instead of 4: from step 4 on" in done.stderr) == warned
        optim = config.parse([*flags, "--epochs", str(epochs)]).optim
        rate_of = schedules.rate_function(optim, RunLength(4, 4 * epochs))
        expected += [rate_of(step) for step in range(len(expected), 4 * epochs)]
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    rates = [record["lr"] for record in map(json.loads, lines) if record["kind"] == "train"]
    assert rates == pytest.approx(expected)
