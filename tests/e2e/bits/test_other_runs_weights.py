"""A run that learns from another run's weights, by --teacher or --pretrained, needs these only to begin."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.amp import BF16, needs_bf16
from tests.support.commands import Command
from tests.support.jobs.shapes_run import flags
from tests.support.runs import records


@pytest.mark.slow  # tests/engine/train/net/test_distillation.py has both
@needs_bf16
def test_a_student_with_mixed_precision_and_its_teacher(
    shapes: Path, tmp_path: Path, command: Command
) -> None:
    school = [*flags(shapes, tmp_path / "school"), "--epochs", "1", "--checkpoint-steps", "2"]
    assert command("mxtrain.fit", *school).returncode == 0
    teacher, another = (tmp_path / "school" / "checkpoints" / f"step-0000000{step}" for step in (4, 2))
    student = [*flags(shapes, tmp_path / "student"), *BF16.split(), "--mixup", "0.2", "--epochs", "2"]
    done = command("mxtrain.fit", *student, "--teacher", teacher, "--max-steps", "4")
    assert done.returncode == 0, done.stderr
    moved = teacher.rename(tmp_path / "moved")
    other = command("mxtrain.fit", *student, "--teacher", another)
    assert other.returncode == 2 and "other weights for --teacher" in other.stderr
    done = command("mxtrain.fit", *student, "--teacher", moved)
    assert done.returncode == 0, done.stderr
    assert [record["step"] for record in records(tmp_path / "student") if record["kind"] == "eval"] == [4, 8]
    shutil.rmtree(moved)
    judged = command("mxtrain.evaluate", "--run", tmp_path / "student", "--json")
    assert judged.returncode == 0, "a student does not need its teacher any more"


@pytest.mark.slow
def test_beginning_where_another_run_ended(shapes: Path, tmp_path: Path, command: Command) -> None:
    first = [*flags(shapes, tmp_path / "first"), "--epochs", "1"]
    assert command("mxtrain.fit", *first).returncode == 0
    part = ["--pretrained", tmp_path / "first", "--freeze", "[0-9].weight", "--epochs", "1"]
    done = command("mxtrain.fit", *flags(shapes, tmp_path / "second"), *part)
    assert done.returncode == 0, done.stderr
    assert "parameters taken" in done.stderr and "left out" not in done.stderr
    losses = [records(tmp_path / name)[0]["loss"] for name in ("first", "second")]
    assert losses[1] < losses[0]
    done = command("mxtrain.fit", *flags(shapes, tmp_path / "second"), *part[:-1], "2")
    assert done.returncode == 0, done.stderr
    assert "resuming from" in done.stderr and "parameters taken" not in done.stderr
