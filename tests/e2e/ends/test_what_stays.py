"""What is in a run folder stays as it is until something new is there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.commands import Command
from tests.support.jobs.shapes_run import curve, flags
from tests.support.runs import records

TWO_WORKERS = ("--kvstore", "dist_sync", "--num-workers", "2", "--devices", "cpu", "--max-restarts", "0")


@pytest.fixture(scope="module")
def finished(shapes: Path, tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    out = tmp_path_factory.mktemp("finished") / "run"
    done = command("mxtrain.fit", *flags(shapes, out), "--epochs", "2")
    assert done.returncode == 0, done.stderr
    return out


def left_in(out: Path) -> dict[str, object]:
    """All files and when they were changed; not what a supervisor says and what keeps two runs apart."""
    return {
        str(path.relative_to(out)): (path.stat().st_mtime_ns, path.stat().st_ino)
        for path in out.rglob("*")
        if path.is_file()
        and not path.name.startswith((".lock", ".folder", "worker-", "server-", "scheduler"))
    }


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (("--freeze", "O.*"), "--freeze O.*"),
        (("--pretrained", "{bad.params}"), "bad.params"),
        (("--train", "{bad.rec}"), "bad.rec"),
        pytest.param(("--loss", "builtins:str"), "str", marks=pytest.mark.slow),
        pytest.param(("--freeze", "O.*", *TWO_WORKERS), "--freeze O.*", marks=pytest.mark.slow),
        pytest.param(("--train", "{bad.rec}", *TWO_WORKERS), "bad.rec", marks=pytest.mark.slow),
    ],
)
def test_who_cannot_begin_leaves_the_older_run_where_it_is(
    finished: Path, shapes: Path, tmp_path: Path, command: Command, wrong: tuple[str, ...], words: str
) -> None:
    (tmp_path / "bad.params").write_bytes(bytes(100))
    damage(shapes / "train.rec", tmp_path / "bad.rec")
    before = left_in(finished)
    line = [str(tmp_path / word.strip("{}")) if "{" in word else word for word in wrong]
    done = command("mxtrain.fit", *flags(shapes, finished), "--resume", "never", *line)
    assert done.returncode != 0 and words in done.stderr, done.stderr
    assert left_in(finished) == before
    assert "previous" not in done.stderr and not list(finished.glob("previous-*"))


def damage(rec: Path, path: Path) -> None:
    """Headers stay whole, and every record is bad."""
    content = bytearray(rec.read_bytes())
    offsets = [int(line.split("\t")[1]) for line in rec.with_suffix(".idx").read_text().splitlines()]
    for offset in offsets:
        content[offset + 60] ^= 1
    path.write_bytes(content)
    for suffix in (".idx", ".classes.tsv"):
        shutil.copy(rec.with_suffix(suffix), path.with_suffix(suffix))


@pytest.mark.parametrize("more", [(), pytest.param(TWO_WORKERS, marks=pytest.mark.slow)])
def test_who_begins_anew_says_where_the_older_run_is(
    finished: Path, shapes: Path, tmp_path: Path, command: Command, more: tuple[str, ...]
) -> None:
    out = tmp_path / "run"
    shutil.copytree(finished, out)
    done = command("mxtrain.fit", *flags(shapes, out), "--resume", "never", "--max-steps", "1", *more)
    assert done.returncode == 0, done.stderr
    said = [line for line in (done.stderr + done.stdout).splitlines() if "previous-1" in line]
    assert len(said) == 1 and said[0].endswith(f"its checkpoints are in {out}/previous-1/checkpoints")
    assert curve(out / "previous-1") == curve(finished)
    for name in ("step-00000004", "step-00000008"):
        assert (out / "previous-1" / "checkpoints" / name / "weights.params").exists()
    assert [record["step"] for record in records(out)] == [1, 1]
    log = (out / "logs" / "fit.log").read_text()
    assert "64 samples, 2 classes" in log and "previous-1" in log, "also what was said before"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--epochs", "1"), "8 steps are done, and --epochs 1 (4 steps) allows no more (it asks for fewer"),
        (("--epochs", "2"), "8 steps are done, and --epochs 2 (8 steps) allows no more;"),
        pytest.param(("--epochs", "2", *TWO_WORKERS[:6]), "allows no more;", marks=pytest.mark.slow),
    ],
)
def test_nothing_left_to_do_writes_nothing_and_reports_what_was_done(
    finished: Path, shapes: Path, command: Command, asked: tuple[str, ...], words: str
) -> None:
    before = left_in(finished)
    line = [*flags(shapes, finished), *asked, "--val", str(shapes / "train.rec")]
    done = command("mxtrain.fit", *line)
    assert done.returncode == 0, done.stderr
    assert left_in(finished) == before
    last = records(finished)[-1]
    said = done.stdout + done.stderr
    score = f"val accuracy {last['val_accuracy']:.4f}, val loss {last['val_loss']:.4f} at step 8"
    where = f", on {shapes / 'val.rec'}; {finished}/checkpoints/step-00000008"
    assert f"done before, nothing is written: {score}, " in said and where in said
    assert words in said and "from step 8 on" not in said and "from there on" not in said


def test_an_older_checkpoint_with_nothing_left_keeps_the_younger(
    finished: Path, shapes: Path, command: Command
) -> None:
    before, start = left_in(finished), finished / "checkpoints" / "step-00000004"
    done = command("mxtrain.fit", *flags(shapes, finished), "--epochs", "1", "--resume", start)
    assert done.returncode == 0, done.stderr
    assert left_in(finished) == before
    assert " at step 4, the best, on " in done.stdout
