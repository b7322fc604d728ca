"""Runs with --stages, as a user types them: the files and the curve of the run on one device, and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Command
from tests.support.jobs.shapes_run import curve
from tests.support.runs import assert_same_checkpoint, kill_at
from tests.tasks.data import steps

FLAGS = "--task lm --model gpt:layers=2,heads=2,width=16,dropout=0.1 --window 16 --optimizer adam --lr 0.01"
FLAGS += " --batch-size 16 --micro-batch 4 --checkpoint-steps 5 --log none --threads 1 --epochs 2"
ONE: list[str] = []
STAGES = ["--stages", "2", "--devices", "cpu:0,1"]


@pytest.mark.slow  # tests/cluster/training/test_mappings.py has a job, tests/engine/train/staged the steps
def test_stages_and_one_device_are_one_run(tmp_path: Path, command: Command) -> None:
    """Also where one of them is killed, and the other goes on from its checkpoint."""
    steps.write(tmp_path, 96, 16)
    data = ["--train", tmp_path / "train.rec", "--val", tmp_path / "val.rec"]
    for name, first, then in (
        ("one", ONE, ONE),
        ("stages", STAGES, STAGES),
        ("to-stages", ONE, STAGES),
        ("to-one", STAGES, ONE),
    ):
        flags = [*map(str, data), *FLAGS.split(), "--out", str(tmp_path / name)]
        if name != "one":
            kill_at(8, tmp_path / f"{name}.log", *flags, *first)
        done = command("mxtrain.fit", *flags, *then)
        assert done.returncode == 0, done.stderr
        assert curve(tmp_path / name) == curve(tmp_path / "one")
        assert_same_checkpoint(tmp_path / name, tmp_path / "one")
        assert ("has" in done.stderr and "of the time" in done.stderr) == (then is STAGES)
    told = [command("mxtrain.evaluate", "--run", tmp_path / name, "--json") for name in ("stages", "one")]
    assert told[0].returncode == 0, told[0].stderr
    assert told[0].stdout.replace("/stages", "/one") == told[1].stdout
