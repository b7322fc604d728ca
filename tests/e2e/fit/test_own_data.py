"""A Gluon Dataset or DataLoader of the user's own through the whole command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.breadth import slow_cases
from tests.support.commands import Command
from tests.support.jobs.shapes_run import FLAGS, curve
from tests.support.runs import records

OWN = "tests.support.user_code.user_data"
FLAGS_OF_TWO_EPOCHS = [*FLAGS, "--epochs", "2", "--schedule", "constant"]


@pytest.mark.parametrize("source", ["batches", *slow_cases("dataset")])
def test_it_trains_evaluates_and_goes_on_in_the_middle(source: str, tmp_path: Path, command: Command) -> None:
    flags = [*FLAGS_OF_TWO_EPOCHS, *(["--augment", "none"] if source == "batches" else [])]
    data = ["--train", f"{OWN}:{source}", "--val", f"{OWN}:held_out", "--num-classes", "2"]
    for out, steps in (("whole", 0), ("parts", 3), ("parts", 0)):
        done = command("mxtrain.fit", *data, *flags, "--out", tmp_path / out, "--max-steps", steps)
        assert done.returncode == 0, done.stderr
    ends = [[row for row in curve(tmp_path / out) if row[1] > 3] for out in ("whole", "parts")]
    assert ends[0] == ends[1]
    last = records(tmp_path / "whole")[-1]
    assert last["val_accuracy"] > 0.9
    again = command("mxtrain.evaluate", "--run", tmp_path / "whole", "--checkpoint", "latest", "--json")
    assert json.loads(again.stdout)["val_loss"] == pytest.approx(last["val_loss"])
