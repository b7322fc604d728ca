"""`python -m mxtrain.evaluate` on handwritten digits: what it prints, and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mxtrain.core.errors import DATA, USAGE
from tests.support.commands import Command
from tests.support.runs import records, scores_of

DIGITS = ["eight", "five", "four", "nine", "one", "seven", "six", "three", "two", "zero"]


def rows(text: str, head: str) -> list[list[str]]:
    """The words of each line of the table that begins with `head`."""
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(head))
    return [line.split() for line in lines[first + 1 : lines.index("", first)]]


def scores_line(found: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:.6g}" for name, value in scores_of(found).items())


def test_it_tells_of_classes_confusions_calibration_and_samples(
    trained_digits: Path, command: Command
) -> None:
    told = command("mxtrain.evaluate", trained_digits, "--json")
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    assert found["class_names"] == DIGITS and found["num_samples"] == sum(found["classes"]["support"])
    (checkpoint,) = found["checkpoints"]
    step = int(Path(checkpoint).name[5:])
    (judged,) = [each for each in records(trained_digits) if (each["kind"], each["step"]) == ("eval", step)]
    assert scores_of(found) == scores_of(judged)

    done = command("mxtrain.evaluate", trained_digits)
    assert done.returncode == 0, done.stderr
    first, blank, *_ = done.stdout.splitlines()
    assert first.endswith(f"val.rec: {scores_line(found)}") and blank == ""
    classes = rows(done.stdout, "class  samples  precision")
    of_each = zip(*(found["classes"][key] for key in ("support", "precision", "recall", "f1")))
    expected = [
        [name, str(row[0]), *(f"{share:.4f}" for share in row[1:])] for name, row in zip(DIGITS, of_each)
    ]
    assert classes[:-1] == expected and classes[-1][0] == "mean"
    most = found["classes"]["confusion"][0]
    assert rows(done.stdout, "class  taken for")[0][:3] == [DIGITS[most[0]], DIGITS[most[1]], str(most[2])]
    assert rows(done.stdout, "class \\ answer")[most[0]][1 + most[1]] == str(most[2])
    assert f"expected calibration error {found['val_ece']:.4g}; on the whole" in done.stdout
    worst = found["worst"][0]
    assert f"loss {worst['loss']:.4g}  {worst['where']}: {DIGITS[worst['label']]}" in done.stdout


@pytest.mark.slow  # in small: tests/engine/inference/test_ensemble.py
def test_two_runs_and_views_are_averaged(trained_digits: Path, command: Command, tmp_path: Path) -> None:
    other = shutil.copytree(trained_digits, tmp_path / "other")
    flags = ["--checkpoint", "last:2", "--tta", "crops", "--val-resize", "37"]
    done = command("mxtrain.evaluate", trained_digits, other, *flags)
    assert done.returncode == 0, done.stderr
    assert "the mean of the weights of 4 checkpoints:" in done.stdout and str(other) in done.stdout
    assert "the mean answer to views of each picture: --tta crops" in done.stdout
    flags += ["--ensemble", "--json"]  # of the same two checkpoints, and so the same answers at other weights
    ensemble = json.loads(command("mxtrain.evaluate", trained_digits, *flags).stdout)
    assert len(ensemble["checkpoints"]) == 2 and ensemble["val_accuracy"] > 0.8
    assert done.stdout.splitlines()[0].partition(": ")[2] != scores_line(ensemble)


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        ("--tta turn", USAGE, "--tta turn: no 'turn'; give flip, crops"),
        ("--tta crops", USAGE, "--tta crops: --val-resize 32 leaves nothing around a picture"),
        ("--ensemble", USAGE, "is one checkpoint; name several"),
        ("--checkpoint 7", USAGE, "--checkpoint 7: no such folder, nor in"),
        ("--checkpoint last:99", DATA, "such checkpoints; give a lower number"),
        ("--val {bad}/empty.rec", DATA, "empty.rec is empty: pack it again"),
        ("--val {bad}/table.csv", USAGE, "table.csv: is a table or a file of arrays"),
        ("--val {bad}/letters.rec", DATA, "letters.rec: its class 0 is 'a', the net's is 'eight'; pack"),
        ("--val {bad}/numbers.rec", DATA, "there are 10 classes (0 to 9); 1 such records; pack training and"),
        (
            "--checkpoint {bad}/damaged",
            DATA,
            "weights.params: damaged, it is not what manifest.json says; give another",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_a_line(
    flags: str, code: int, words: str, trained_digits: Path, bad: Path, command: Command
) -> None:
    done = command("mxtrain.evaluate", trained_digits, *flags.format(bad=bad).split())
    assert done.returncode == code, done.stderr
    assert done.stdout == "" and words in done.stderr and done.stderr.count("\n") == 1


@pytest.fixture(scope="module")
def bad(trained_digits: Path, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from mxtrain.data.records.record_file import classes_path
    from mxtrain.data.records.record_writer import RecordWriter

    folder = tmp_path_factory.mktemp("bad")
    (folder / "empty.rec").touch()
    (folder / "table.csv").write_text("a,b\n1,2\n")
    picture = next((digits / "images" / "one").iterdir()).read_bytes()
    for name, labels in (("letters", (0.0, 1.0)), ("numbers", (3.0, 11.0))):
        with RecordWriter(folder / f"{name}.rec") as writer:
            for key, label in enumerate(labels):
                writer.write(key, label, picture)
    classes_path(folder / "letters.rec").write_text("a\t1\nb\t1\n")
    newest = max((trained_digits / "checkpoints").glob("step-*"))
    shutil.copytree(newest, folder / "damaged")
    with (folder / "damaged" / "weights.params").open("r+b") as file:
        file.seek(200)
        file.write(b"\xff\xff")
    return folder


def test_a_net_that_learnt_numbers(command: Command, tmp_path: Path) -> None:
    """It has no classes; what stands in another column of a table is named by --target."""
    head, *lines = ["x,y,low,high", *(f"{n},{n % 7},{n},{2 * n + n % 7}" for n in range(40))]
    (tmp_path / "t.csv").write_text("\n".join([head, *lines]))
    (tmp_path / "v.csv").write_text("\n".join(["x,y,least,most", *lines]))
    data = ["--train", tmp_path / "t.csv", "--val", tmp_path / "t.csv", "--target", "low,high"]
    flags = ["--task", "arrays", "--epochs", 2, "--batch-size", 8, "--log", "none"]
    done = command("mxtrain.fit", *data, *flags, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    done = command("mxtrain.evaluate", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert [row[0] for row in rows(done.stdout, "target")] == ["low", "high"]
    assert "t.csv: row " in done.stdout and ", predicted " in done.stdout and "class" not in done.stdout
    other = ["mxtrain.evaluate", tmp_path / "run", "--val", tmp_path / "v.csv"]
    refused = command(*other)
    assert refused.returncode == USAGE and "--target" in refused.stderr
    again = command(*other, "--target", "least,most", "--json")
    assert json.loads(again.stdout)["val_rmse_low"] > 0, again.stderr
    refused = command("mxtrain.evaluate", tmp_path / "run", "--tta", "flip")
    assert refused.returncode == USAGE and "arrays, has no pictures to turn or crop" in refused.stderr
