"""An FCN of a ResNet-50, too large for the short runs of tests/tasks: it is learnt, and its curve is one everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples import masked_shapes
from tests.support.commands import Command
from tests.support.runs import assert_same_end, kill_at, records

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

FCN = "--task segmentation --model fcn_resnet50_voc --optimizer adam --lr 0.001 --batch-size 8 --threads 1 --log none"
DEADLINE = 900  # seconds of a run, on a machine that others use


def test_shapes_are_learnt(tmp_path: Path, command: Command) -> None:
    train = masked_shapes.write(tmp_path / "train.rec", 400, seed=0)
    val = masked_shapes.write(tmp_path / "val.rec", 60, seed=1)
    flags = f"{FCN} --image-size 48 --augment none --epochs 2"
    line = ["mxtrain.fit", *flags.split(), "--train", train, "--val", val, "--out", tmp_path / "run"]
    done = command(*line, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    *_, last = [each for each in records(tmp_path / "run") if each["kind"] == "eval"]
    assert last["val_miou"] > 0.3  # background alone: 0.23


def test_the_curve_is_one_after_a_kill_and_on_any_workers(tmp_path: Path, command: Command) -> None:
    train = masked_shapes.write(tmp_path / "train.rec", 16, seed=0)
    flags = f"{FCN} --image-size 32 --augment scale_crop+flip --micro-batch 2 --epochs 2 --checkpoint-steps 2"
    line = [*flags.split(), "--train", str(train), "--out"]
    alone = tmp_path / "alone"
    done = command("mxtrain.fit", *line, alone, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    kill_at(3, tmp_path / "killed.log", *line, str(tmp_path / "killed"))
    for name, cluster in (
        ("killed", ""),
        ("two", "--kvstore dist_sync --start-timeout 300 --num-workers 2"),
        ("four", "--kvstore dist_sync --start-timeout 300 --num-workers 4"),
    ):
        done = command("mxtrain.fit", *line, tmp_path / name, *cluster.split(), timeout=DEADLINE)
        assert done.returncode == 0, done.stderr
        assert_same_end(tmp_path / name, alone)
