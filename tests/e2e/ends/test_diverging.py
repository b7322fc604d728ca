"""A run whose numbers are lost ends with exit code 4 and one line that says where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mxtrain.core.errors import DIVERGED, DONE
from tests.support.commands import Command
from tests.support.runs import records

SMALL = ["--model", "small_cnn", "--image-size", "16", "--batch-size", "16", "--epochs", "2"]
FLAGS = [*SMALL, "--log", "none", "--max-bad-steps", "2"]


def steps(out: Path) -> list[dict[str, Any]]:
    return records(out, "train")


@pytest.mark.parametrize(
    "way", ["", pytest.param("--stages 2 --devices cpu:0,1", marks=pytest.mark.slow)], ids=["one", "stages"]
)
def test_a_rate_beyond_measure(command: Command, shapes: Path, tmp_path: Path, way: str) -> None:
    """The first update spoils the weights, the next two steps are skipped."""
    train = ["--train", shapes / "train.rec", "--out", tmp_path / "run", *way.split()]
    done = command("mxtrain.fit", *train, "--lr", "1e12", "--weight-decay", "1e6", *FLAGS)
    assert done.returncode == DIVERGED, done.stderr
    assert "Traceback" not in done.stderr
    assert "step 2 skipped: not finite; 1 of 2 in a row end the run" in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    for word in ("step 3: not finite in 2 steps", "layer 18 (BatchNorm)", "backward, for samples", "--lr"):
        assert word in last, last
    found = json.loads((tmp_path / "run" / "logs" / "diverged.json").read_text())
    assert str(tmp_path / "run" / "logs" / "diverged.json") in last
    assert all("train.rec: record" in name for name in found["records"])
    assert len(found["samples_of_step"]) == 16 and set(found["samples"]) <= set(found["samples_of_step"])
    assert [record.get("skipped_steps", 0) for record in steps(tmp_path / "run")] == [0, 1, 2]
    start, skipped, stop = records(tmp_path / "run", "event")
    assert start["event"] == "start" and start["initialise_seconds"] > 0 and start["versions"]["numpy"]
    assert (skipped["event"], skipped["step"]) == ("skipped_step", 2) and "not finite" in skipped["text"]
    assert (stop["event"], stop["step"]) == ("stop", 3) and last.endswith(stop["reason"])


def test_weights_that_are_lost_before_a_step_shows_it(command: Command, shapes: Path, tmp_path: Path) -> None:
    train = ["--train", shapes / "train.rec", "--out", tmp_path / "run", *SMALL, "--log", "none"]
    done = command("mxtrain.fit", *train, "--lr", "1e6")
    assert done.returncode == DIVERGED and "Traceback" not in done.stderr, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    found = json.loads((tmp_path / "run" / "logs" / "diverged.json").read_text())
    for word in (
        "step 4: weights are",
        found["layer"],
        str(tmp_path / "run" / "logs" / "diverged.json"),
        "--lr",
    ):
        assert word in last, last
    assert found["way"] == "update" and found["layer"].startswith("layer ") and found["step"] == 4


def test_a_validation_loss_that_is_no_number(command: Command, shapes: Path, tmp_path: Path) -> None:
    """The weights are numbers yet, and make infinities of the very first pictures that are judged."""
    train = ["--train", shapes / "train.rec", "--val", shapes / "val.rec", "--out", tmp_path / "run", *SMALL]
    wild = ["--model", "small_resnet", "--optimizer", "adam", "--lr", "1e6", "--batch-size", "64"]
    done = command("mxtrain.fit", *train, *wild, "--log", "none")
    assert done.returncode == DIVERGED and "Traceback" not in done.stderr, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    found = json.loads((tmp_path / "run" / "logs" / "diverged.json").read_text())
    for word in (
        "step 1: the validation loss is nan; it begins in",
        found["layer"],
        "samples 0, 1, 2 and",
        "--lr",
    ):
        assert word in last, last
    assert found["way"] == "forward" and (found["step"], found["loss"]) == (1, "nan")
    assert "val.rec: record 0" in found["records"][0]


def test_a_loss_scale_that_is_not_needed(command: Command, shapes: Path, tmp_path: Path) -> None:
    """Nothing overflows in float32: every step is applied, and says so."""
    train = ["--train", shapes / "train.rec", "--out", tmp_path / "run"]
    done = command(
        "mxtrain.fit", *train, "--lr", "0.01", "--loss-scale", "dynamic", "--clip-norm", "1", *FLAGS
    )
    assert done.returncode == DONE, done.stderr
    for record in steps(tmp_path / "run"):
        assert record["loss_scale"] == 2.0**16 and record["applied"] and record["gradient_norm"] > 0
