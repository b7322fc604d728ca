"""--dry-run prints the plan of a run, refuses what the run would refuse, and leaves nothing behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from mxtrain.data.records.record_file import classes_path, open_records
from mxtrain.data.records.record_writer import RecordWriter
from tests.support.commands import Command
from tests.support.jobs.shapes_run import flags


def test_a_dry_run_prints_the_plan_and_leaves_nothing(shapes: Path, tmp_path: Path, command: Command) -> None:
    run = [*flags(shapes, tmp_path / "run"), "--dry-run", "--freeze", "0.*"]
    done = command("mxtrain.fit", *run)
    assert done.returncode == 0, done.stderr
    for words in (
        "64 samples, 2 classes",
        "global batch 16",
        "learning rate",
        "0.weight",
        "frozen",
        "of adamw",
    ):
        assert words in done.stdout
    wrong = command("mxtrain.fit", *run, "--freeze", "O.*")
    assert wrong.returncode == 2 and "--freeze O.*" in wrong.stderr
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def begun(shapes: Path, tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    out = tmp_path_factory.mktemp("begun") / "run"
    assert command("mxtrain.fit", *flags(shapes, out), "--max-steps", "1").returncode == 0
    return out


def left_in(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


def pack_other_pictures(rec: Path, path: Path) -> None:
    """As many records with the same keys, labels and classes."""
    records = open_records(rec)
    with RecordWriter(path) as writer:
        for position in range(len(records)):
            key, label, payload = records.read(position)
            other = cv2.imdecode(np.frombuffer(payload, np.uint8), cv2.IMREAD_COLOR) // 2
            writer.write(key, label, cv2.imencode(".png", other)[1].tobytes())
    shutil.copy(classes_path(rec), classes_path(path))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("--schedule math:nothere", "--schedule math:nothere"),
        pytest.param("--schedule builtins:str", "--schedule builtins:str", marks=pytest.mark.slow),
        ("--loss math:nothere", "--loss math:nothere"),
        ("--lr 0.7", "is another run's (--lr"),
        ("--train {other}", "is another run's (--train {other} is not the set that"),
    ],
)
def test_a_dry_run_refuses_what_a_run_does(
    shapes: Path, begun: Path, tmp_path: Path, command: Command, wrong: str, words: str
) -> None:
    out = begun if "another run's" in words else tmp_path / "run"
    other = tmp_path / "other.rec"
    if "{other}" in wrong:
        pack_other_pictures(shapes / "train.rec", other)
        wrong, words = wrong.format(other=other), words.format(other=other)
    line, before = [*flags(shapes, out), *wrong.split()], left_in(out)
    dry = command("mxtrain.fit", *line, "--dry-run")
    assert left_in(out) == before
    wet = command("mxtrain.fit", *line)
    assert dry.returncode == wet.returncode == 2 and words in dry.stderr
    assert dry.stderr.splitlines()[-1] == wet.stderr.splitlines()[-1]


def test_a_dry_run_names_the_checkpoint_it_would_resume_from(
    shapes: Path, begun: Path, command: Command
) -> None:
    before = left_in(begun)
    done = command("mxtrain.fit", *flags(shapes, begun), "--dry-run")
    assert done.returncode == 0 and f"resuming from {begun}/checkpoints/step-00000001" in done.stdout
    assert left_in(begun) == before
