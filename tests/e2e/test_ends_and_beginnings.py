"""Runs that end early, that learn a few batches by heart, that begin with another run, and that only tell."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from mxtrain.data.record_file import classes_path, open_records
from mxtrain.data.record_writer import RecordWriter
from tests.support.amp import needs_bf16
from tests.support.commands import Command
from tests.support.shapes_run import curve, flags, records

CALM = ["--schedule", "constant", "--lr", "0.003", "--epochs", "30", "--early-stop", "2"]


def test_an_early_end_is_the_same_after_a_stop(shapes: Path, tmp_path: Path, command: Command) -> None:
    done = command("mxtrain.fit", *flags(shapes, tmp_path / "whole"), *CALM)
    assert done.returncode == 0, done.stderr
    assert "--early-stop: no better score than" in done.stderr
    scores = [record["val_accuracy"] for record in records(tmp_path / "whole") if record["kind"] == "eval"]
    assert 3 <= len(scores) < 30
    assert scores.index(max(scores)) == len(scores) - 3, "two evaluations after the best it ended"
    assert last_line(scores, records(tmp_path / "whole")[-1]["val_loss"]) in done.stdout
    judged = command("mxtrain.evaluate", "--run", tmp_path / "whole", "--json")
    assert json.loads(judged.stdout)["val_accuracy"] == max(scores)

    part = [*flags(shapes, tmp_path / "parts"), *CALM]
    steps = 4 * (len(scores) - 1)  # one evaluation before the end
    assert command("mxtrain.fit", *part, "--max-steps", steps).returncode == 0
    assert command("mxtrain.fit", *part).returncode == 0
    assert curve(tmp_path / "parts") == curve(tmp_path / "whole")
    assert newest_weights(tmp_path / "parts") == newest_weights(tmp_path / "whole")

    again = command("mxtrain.fit", *part)
    assert again.returncode == 0 and "--early-stop" in again.stderr
    assert curve(tmp_path / "parts") == curve(tmp_path / "whole"), "there was nothing left to do"


def last_line(scores: list[float], loss: float) -> str:
    """How the last line begins, with four steps an epoch."""
    best = max(place for place, score in enumerate(scores) if score == max(scores))
    is_best = (
        "the best" if scores[best] == scores[-1] else f"best {scores[best]:.4f} at step {4 * (best + 1)}"
    )
    return f"done: val accuracy {scores[-1]:.4f}, val loss {loss:.4f} at step {4 * len(scores)}, {is_best}; "


def newest_weights(out: Path) -> bytes:
    return (sorted((out / "checkpoints").iterdir())[-1] / "weights.params").read_bytes()


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    pytest.importorskip("sklearn")
    folder = tmp_path_factory.mktemp("digits")
    assert command("examples.digits", folder / "images").returncode == 0
    assert command("tools.im2rec_wrapper", "pack", folder / "images", folder / "digits.rec").returncode == 0
    return folder / "digits.rec"


def test_a_few_batches_of_digits_are_learnt_by_heart(digits: Path, tmp_path: Path, command: Command) -> None:
    recipe = (
        "--config examples/digits.yaml --overfit 2 --batch-size 32 --max-steps 60 --log none --val unread.rec"
    )
    done = command("mxtrain.fit", *recipe.split(), "--train", digits, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    trained, judged = (
        [record for record in records(tmp_path / "run") if record["kind"] == kind]
        for kind in ("train", "eval")
    )
    assert judged[-1]["num_samples"] == 64 and judged[-1]["val_accuracy"] == 1.0
    assert trained[0]["loss"] > 2 > 0.5 > trained[-1]["loss"]


@needs_bf16
def test_a_student_with_mixed_precision_and_its_teacher(
    shapes: Path, tmp_path: Path, command: Command
) -> None:
    school = [*flags(shapes, tmp_path / "school"), "--epochs", "1", "--checkpoint-steps", "2"]
    assert command("mxtrain.fit", *school).returncode == 0
    teacher, another = (tmp_path / "school" / "checkpoints" / f"step-0000000{step}" for step in (4, 2))
    student = [*flags(shapes, tmp_path / "student"), "--amp", "bf16", "--mixup", "0.2", "--epochs", "2"]
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


@needs_bf16
@pytest.mark.slow
def test_recomputing_is_the_same_in_mixed_precision(shapes: Path, tmp_path: Path, command: Command) -> None:
    wanted = ["--amp", "bf16", "--model", "small_resnet", "--epochs", "1"]
    for name, more in (("plain", []), ("again", ["--remat"])):
        done = command("mxtrain.fit", *flags(shapes, tmp_path / name), *wanted, *more)
        assert done.returncode == 0, done.stderr
    plain, again = (
        [record["loss"] for record in records(tmp_path / name) if record["kind"] == "train"]
        for name in ("plain", "again")
    )
    assert again == pytest.approx(plain, rel=1e-6)
    judged = command("mxtrain.evaluate", "--run", tmp_path / "again", "--json")
    assert json.loads(judged.stdout)["val_loss"] == pytest.approx(records(tmp_path / "again")[-1]["val_loss"])


def test_a_dry_run_tells_and_leaves_nothing(shapes: Path, tmp_path: Path, command: Command) -> None:
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


def test_a_dry_run_tells_where_it_would_go_on(shapes: Path, begun: Path, command: Command) -> None:
    before = left_in(begun)
    done = command("mxtrain.fit", *flags(shapes, begun), "--dry-run")
    assert done.returncode == 0 and f"resuming from {begun}/checkpoints/step-00000001" in done.stdout
    assert left_in(begun) == before
