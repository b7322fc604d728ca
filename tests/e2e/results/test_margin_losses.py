"""Runs with --loss arcface and cosface: learnt, killed and resumed on other devices, of two workers, exported."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mxtrain.export.__main__ import export
from mxtrain.predict import predict
from tests.support import runs
from tests.support.commands import Command
from tests.support.jobs.shapes_run import flags

PICTURES = ("--model", "small_cnn", "--image-size", "32", "--val-resize", "32", "--augment", "none")
STEPS = ("--batch-size", "64", "--micro-batch", "16", "--lr", "0.05", "--log", "none")


def of_digits(digits: Path, out: Path, *more: object) -> list[str]:
    data = ("--train", digits / "train.rec", "--val", digits / "val.rec", "--out", out)
    return [*map(str, (*data, *PICTURES, *STEPS, *more))]


def fitted(command: Command, line: list[str]) -> str:
    done = command("mxtrain.fit", *line)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_margin_is_learnt_with(shapes: Path, tmp_path: Path, command: Command) -> None:
    """What predict answers are the shares of plain cosines; no run with another loss goes on from there."""
    line = [*flags(shapes, tmp_path), "--epochs", "2", "--loss", "arcface:scale=8,margin=0.3"]
    fitted(command, line)
    losses = [record["loss"] for record in runs.records(tmp_path, "train")]
    last = runs.records(tmp_path, "eval")[-1]
    assert (
        np.mean(losses[-2:]) < losses[0] / 2 and last["val_accuracy"] == 1 and last["val_loss"] < losses[-1]
    )
    found = predict(tmp_path, shapes / "val.rec")
    own = [max(each["probability"] for each in sample["classes"]) for sample in found]
    assert -np.log(own).mean() == pytest.approx(last["val_loss"], abs=1e-4)
    other = command("mxtrain.fit", *line[:-1], "cross_entropy", "--epochs", "3")
    assert other.returncode == 2 and "is another run's (--loss arcface:scale=8,margin=0.3" in other.stderr


@pytest.mark.slow  # tests/engine/models/test_margin_losses.py has the loss
@pytest.mark.parametrize("loss", ["arcface:scale=16,margin=0.3", "cosface:scale=16"])
def test_a_killed_run_on_other_devices_ends_as_the_straight_one(
    digits: Path, tmp_path: Path, command: Command, loss: str
) -> None:
    straight, out = tmp_path / "straight", tmp_path / "run"
    line = ["--loss", loss, "--epochs", "2", "--checkpoint-steps", "10"]
    fitted(command, of_digits(digits, straight, *line))
    runs.kill_at(15, tmp_path / "killed.log", *of_digits(digits, out, *line))
    fitted(command, of_digits(digits, out, *line, "--devices", "cpu:0,1"))
    runs.assert_same_end(out, straight)
    two = of_digits(digits, tmp_path / "two", *line, "--kvstore", "dist_sync", "--update", "servers")
    job = command("mxtrain.launch", "local", "-n", "2", "-s", "1", "--", *two)
    assert job.returncode == 0, job.stderr
    runs.assert_same_checkpoint(tmp_path / "two", straight)
    assert runs.records(out, "eval")[-1]["val_accuracy"] > 0.9

    judged = json.loads(command("mxtrain.evaluate", out, "--checkpoint", "latest", "--json").stdout)
    assert judged["val_loss"] == runs.records(out, "eval")[-1]["val_loss"]
    (vectors,) = {len(each["features"]) for each in predict(out, digits / "val.rec", embed=True)}
    assert vectors > 2
    for kind, most in (("onnx", 1e-4), ("symbol", 1e-6), ("int8", 1.0)):
        if kind == "onnx":
            pytest.importorskip("onnxruntime")
        found = export(out, to=kind, out=tmp_path / kind, val=str(digits / "val.rec"))
        assert found.differences.absolute < most, kind

    # The head has the parameter of the plain one, so the weights of each are a start for the other.
    plain = of_digits(digits, tmp_path / "plain", "--epochs", "1", "--pretrained", out)
    assert "left out, not in the file: 24.bias" in fitted(command, plain)
    back = of_digits(digits, tmp_path / "back", *line, "--max-steps", "2", "--pretrained", tmp_path / "plain")
    assert "left out, not in the net: 24.bias" in fitted(command, back)
