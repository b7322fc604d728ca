"""Smaller nets of trained ones, by --prune, and averaged ones, by --average: whole runs on digits and shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import runs
from tests.support.amp import MIXED
from tests.support.commands import Command

DIGITS = (
    "--model",
    "small_cnn",
    "--image-size",
    "32",
    "--val-resize",
    "32",
    "--augment",
    "none",
    "--log",
    "none",
)
FEW_STEPS = ("--batch-size", "32", "--micro-batch", "16", "--epochs", "1", "--max-steps", "4")


def fitted(command: Command, *flags: object) -> str:
    done = command("mxtrain.fit", *flags)
    assert done.returncode == 0, done.stderr
    return done.stderr


def of_digits(digits: Path, out: Path, *more: object) -> list[str]:
    data = ("--train", digits / "train.rec", "--val", digits / "val.rec", "--out", out)
    return [*map(str, (*data, *DIGITS, *FEW_STEPS, *more))]


def refused(command: Command, *flags: object) -> str:
    done = command("mxtrain.fit", *flags)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    return done.stderr.splitlines()[-1]


def arrays_of(checkpoint: Path, name: str = "weights.params") -> dict[str, np.ndarray[Any, Any]]:
    from mxtrain.runtime import mx

    return {name: array.asnumpy() for name, array in mx.nd.load(str(checkpoint / name)).items()}


@pytest.mark.slow  # tests/engine/models/test_pruning.py has the net
def test_a_net_of_half_the_channels(
    digits: Path, trained_digits: Path, tmp_path: Path, command: Command
) -> None:
    """It is killed and goes on, and is as good a start as any run; the kept channels are the trained net's."""
    straight, out = tmp_path / "straight", tmp_path / "run"
    line = ["--pretrained", trained_digits, "--prune", "0.5", "--lr", "0.05", "--ema", "0.9"]
    said = fitted(command, *of_digits(digits, straight, *line))
    assert "73,402 numbers of the net become 18,850 (26%)" in said and "32 of 32 parameters taken" in said
    runs.kill_at(3, tmp_path / "killed.log", *of_digits(digits, out, *line, "--checkpoint-steps", "2"))
    fitted(command, *of_digits(digits, out, *line, "--checkpoint-steps", "2", "--devices", "cpu:0,1"))
    runs.assert_same_end(out, straight)

    found = command("mxtrain.evaluate", out, "--checkpoint", "latest", "--json")
    last = runs.records(straight, "eval")[-1]
    assert json.loads(found.stdout)["val_loss"] == last["val_loss"]
    assert runs.records(straight, "train")[-1]["loss"] < 2, "a net from nothing has more than 2.3"
    of_both = command("mxtrain.evaluate", trained_digits, out)
    assert of_both.stderr.endswith("is of nets of the same shape, --ensemble takes others\n")
    weights = arrays_of(runs.newest(out))
    assert weights["0.weight"].shape == (8, 3, 3, 3) and weights["8.running_var"].shape == (16,)
    assert "another run's (--prune 0.5 -> 0.25)" in refused(
        command, *of_digits(digits, out, *line, "--prune", "0.25")
    )

    again = fitted(
        command,
        *of_digits(digits, tmp_path / "again", "--pretrained", out, "--teacher", out, "--max-steps", "1"),
    )
    assert "32 of 32 parameters taken" in again
    assert arrays_of(runs.newest(tmp_path / "again"))["0.weight"].shape == (8, 3, 3, 3)


def test_half_of_the_weights_are_zero_and_stay_so(
    digits: Path, trained_digits: Path, tmp_path: Path, command: Command
) -> None:
    straight, out = tmp_path / "straight", tmp_path / "run"
    line = ["--pretrained", trained_digits, "--prune", "0.5", "--prune-by", "weight", "--lr", "0.02"]
    fitted(command, *of_digits(digits, straight, *line))
    runs.kill_at(3, tmp_path / "killed.log", *of_digits(digits, out, *line, "--checkpoint-steps", "2"))
    fitted(command, *of_digits(digits, out, *line, "--checkpoint-steps", "2", "--devices", "cpu:0,1"))
    runs.assert_same_end(out, straight)
    weights, before = arrays_of(runs.newest(out)), arrays_of(trained_digits / "checkpoints" / "step-00000078")
    kernels = {name: array for name, array in weights.items() if array.ndim > 1}
    total, zeros = (
        sum(count(each) for each in kernels.values()) for count in (np.size, lambda a: (a == 0).sum())
    )
    assert zeros == -(-total // 2)
    assert all((array != before[name]).any() for name, array in kernels.items()), "the others have learnt"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--prune 0.99", "leaves nothing of the 16 channels of 0.weight; give 0.937 or less"),
        ("--prune 0.9999 --prune-by weight", "leaves nothing of"),
        ("--prune 0.5 --model tests.support.nets.shuffled_net:parts", "give --prune-by weight"),
    ],
)
def test_what_cannot_be_pruned_is_named(
    digits: Path, trained_digits: Path, tmp_path: Path, command: Command, flags: str, message: str
) -> None:
    line = of_digits(digits, tmp_path, "--pretrained", trained_digits, *flags.split())
    assert message in refused(command, *line, "--dry-run")


AVERAGED = [
    *(
        "--model",
        "small_cnn",
        "--image-size",
        "24",
        "--val-resize",
        "24",
        "--augment",
        "none",
        "--log",
        "none",
    ),
    *("--batch-size", "16", "--micro-batch", "8", "--epochs", "3", "--schedule", "constant", "--lr", "0.05"),
    *("--average", "2", "--checkpoint-steps", "2", "--keep-last", "20"),
]


@pytest.mark.slow  # tests/engine has the mean
def test_a_run_ends_with_the_mean_of_its_weights(shapes: Path, tmp_path: Path, command: Command) -> None:
    """Killed between the points at which they are taken, and as running statistics settle, it ends the same."""
    straight, out = tmp_path / "straight", tmp_path / "run"
    data = ["--train", str(shapes / "train.rec"), "--val", str(shapes / "val.rec")]
    fitted(command, *data, *AVERAGED, "--out", straight)
    for step in (6, 10):
        runs.kill_at(step, tmp_path / f"{step}.log", *data, *AVERAGED, "--out", str(out))
    fitted(command, *data, *AVERAGED, "--out", out, "--devices", "cpu:0,1")
    runs.assert_same_end(out, straight)

    checkpoints = straight / "checkpoints"
    end, half = (arrays_of(checkpoints / f"step-{step:08d}") for step in (12, 4))
    total = arrays_of(checkpoints / "step-00000006", "average.params")
    is_moving = [name for name in end if not name.endswith(("running_mean", "running_var"))]
    assert all((total[name] == half[name]).all() for name in is_moving)
    settled = arrays_of(checkpoints / "step-00000010")
    assert all((end[name] == settled[name]).all() for name in is_moving), (
        "nothing moves while statistics settle"
    )
    assert (end["1.running_var"] != settled["1.running_var"]).any()
    rates = [each["lr"] for each in runs.records(straight, "train")]
    assert rates == [0.05] * 8 + [0.0] * 4
    assert runs.records(straight, "eval")[-1]["val_accuracy"] == 1


def test_a_run_too_short_to_average_is_refused(shapes: Path, tmp_path: Path, command: Command) -> None:
    line = ["--train", shapes / "train.rec", *AVERAGED, "--out", tmp_path]
    assert "--average 3: the run has 12 steps, 3 epochs" in refused(command, *line, "--average", "3")


@pytest.mark.slow  # in small: the tests above
@pytest.mark.timeout(600)
@pytest.mark.parametrize("by", ["channel", "weight"])
def test_two_workers_are_the_same_curve(
    digits: Path, trained_digits: Path, tmp_path: Path, command: Command, by: str
) -> None:
    more = [
        "--pretrained",
        trained_digits,
        "--prune",
        "0.5",
        "--prune-by",
        by,
        "--amp",
        MIXED,
        "--ema",
        "0.9",
    ]
    fitted(command, *of_digits(digits, tmp_path / "one", *more))
    store = ["--kvstore", "dist_sync", "--num-workers", "2"]
    fitted(command, *of_digits(digits, tmp_path / "two", *more, *store))
    runs.assert_same_end(tmp_path / "two", tmp_path / "one")


@pytest.mark.slow  # in small: the tests above
@pytest.mark.timeout(600)
def test_two_workers_have_the_same_mean(shapes: Path, tmp_path: Path, command: Command) -> None:
    data = ["--train", shapes / "train.rec", "--val", shapes / "val.rec"]
    fitted(command, *data, *AVERAGED, "--amp", MIXED, "--out", tmp_path / "one")
    store = ["--kvstore", "dist_sync", "--num-workers", "2"]
    fitted(command, *data, *AVERAGED, "--amp", MIXED, "--out", tmp_path / "two", *store)
    runs.assert_same_end(tmp_path / "two", tmp_path / "one")
