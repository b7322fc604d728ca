"""What fails in the user's own code keeps its traceback, and is reported with the flag that named that code."""

from __future__ import annotations

from pathlib import Path

import pytest

from mxtrain.core.errors import BUG, RESTART_ME
from tests.support.breadth import slow_cases
from tests.support.commands import Command
from tests.support.jobs.shapes_run import FLAGS

OWN = "tests.support.user_code.user_failing"
WORDS = 'KeyError: "the user\'s own mistake"'


@pytest.mark.parametrize(
    ("flag", "name", "more"),
    [
        ("--model", "late_net", ""),
        ("--loss", "Loss", ""),
        ("--augment", "augmentation", "--loader processes"),
        ("--train", "Pictures", "--augment none"),
        ("--train", "Batches", "--augment none --num-classes 2"),
        *slow_cases(  # what fails sooner, or in fewer processes, than one of the same flag above
            ("--model", "fail", ""),
            ("--augment", "augmentation", "--loader threads"),
            ("--train", "fail", "--augment none"),
        ),
    ],
)
def test_the_flag_comes_last(
    shapes: Path, tmp_path: Path, command: Command, flag: str, name: str, more: str
) -> None:
    flags = ["--train", shapes / "train.rec", *FLAGS, "--out", tmp_path / "run", *more.split()]
    done = command("mxtrain.fit", *flags, flag, f"{OWN}:{name}")
    assert done.returncode == BUG, done.stderr
    assert done.stderr.splitlines()[-1] == f"mxtrain.fit: {flag} {OWN}:{name}: {WORDS}"
    assert "Traceback" in done.stderr and "in fail" in done.stderr


def test_all_workers_hear_the_flag(shapes: Path, tmp_path: Path, command: Command) -> None:
    cluster = ["--kvstore", "dist_sync", "--num-workers", "2", "--max-restarts", "0", "--devices", "cpu"]
    flags = ["--train", shapes / "train.rec", *FLAGS, "--out", tmp_path / "run", *cluster]
    done = command("mxtrain.fit", *flags, "--loss", f"{OWN}:Loss")
    assert done.returncode == RESTART_ME, done.stderr
    assert f"--loss {OWN}:Loss: {WORDS}" in done.stderr
    logs = [(tmp_path / "run" / "logs" / f"worker-{number}.log").read_text() for number in (0, 1)]
    assert any("Traceback" in log and "in fail" in log for log in logs)
    # Both may fail at the same moment: one ends as it hears of the other, in the middle of its own traceback.
    assert all(f"--loss {OWN}:Loss: {WORDS}" in log for log in logs)
