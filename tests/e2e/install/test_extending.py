"""docs/extending.md: one file of one's own, or one entry in the file of its kind, and fit and pack have it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import ROOT
from tests.support.runs import records

PAGE = (ROOT / "docs" / "extending.md").read_text()
MINE, MINE_TOO = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)
TASK, PROGRAM = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "tasks.md").read_text(), re.S | re.M)
ENTRIES = re.findall(r"^\| `([^`]+)` \| (\S+\.py) \| `(.+)` \|$", PAGE, re.M)
TABLE = re.compile(r"^[A-Z_]+ = by_name\(\n", re.M)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the packages, with the files of the page in it, and an entry of each kind."""
    folder = tmp_path / "copy"
    kept_out = shutil.ignore_patterns("__pycache__")
    for name in ("mxtrain", "tools"):
        shutil.copytree(ROOT / name, folder / name, ignore=kept_out)
    for name, text in (("mine", MINE), ("mine_too", MINE_TOO), ("mine_task", TASK)):
        (folder / f"{name}.py").write_text(text)
    for _, file, entry in ENTRIES:
        text = (folder / file).read_text()
        (folder / file).write_text(
            TABLE.sub(lambda start, entry=entry: f"{start[0]}    {entry}\n", text, count=1)
        )
    return folder


def run(folder: Path, *line: object) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, *map(str, line)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def values(out: Path, name: str) -> list[Any]:
    return [each[name] for each in records(out) if name in each]


def test_one_file_of_ones_own_has_one_of_each_kind(shapes: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    flags = re.findall(r"(--\w+) (mine:\w+)", PAGE.partition("```python")[0])
    assert len(flags) == 7
    data = ["--train", shapes / "train.rec", "--val", shapes / "val.rec", "--image-size", 24]
    words = [word for pair in flags for word in pair]
    line = ("-m", "mxtrain.fit", *data, *words, "--lr", "0.01", "--epochs", "2", "--batch-size", "16")
    run(tmp_path, *line, "--out", "run")
    assert values(tmp_path / "run", "lr")[-1] == 0.01 / 8
    assert len(values(tmp_path / "run", "val_error_rate")) == 2
    lines = (tmp_path / "run" / "lines.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines].count("eval") == 2


@pytest.mark.slow  # the test above has one of each kind in a file of one's own
def test_an_entry_in_the_file_of_its_kind_is_a_name_of_every_command(copy: Path) -> None:
    kinds = {kind: entry for kind, _, entry in ENTRIES}
    assert len(kinds) == 11
    (copy / "levels.dots").write_text("\n".join(str(level) for level in range(0, 256, 2)))
    run(copy, "-m", "tools.im2rec_wrapper", "pack", "levels.dots", "packed", "--split", "0.75")
    flags = {
        **{"--optimizer": "lion:beta2=0.95", "--momentum": "0.8", "--schedule": "halves:parts=2"},
        **{"--loss": "margin:width=0.5", "--metric": "error_rate", "--augment": "invert:p=0.1"},
        **{"--init": "constant:value=0.01", "--model": "tiny", "--log": "lines"},
        "--kvstore": "local_allreduce_cpu",
    }
    assert {*flags, "--task", "pack --from", "--momentum"} == {*kinds, "--momentum"}
    data = ["--train", "packed/train.rec", "--val", "packed/val.rec", "--image-size", "24"]
    words = [word for pair in flags.items() for word in pair]
    run(
        copy,
        "-m",
        "mxtrain.fit",
        *data,
        *words,
        "--lr",
        "0.01",
        "--epochs",
        "2",
        "--batch-size",
        "16",
        "--out",
        "run",
    )
    assert values(copy / "run", "lr")[-1] == 0.005
    assert len(values(copy / "run", "val_error_rate")) == 2 and (copy / "run" / "lines.jsonl").exists()

    # A wrong number, and a name that is nearly one, are refused as any other's; help and completion have the name.
    for words, message in (
        (["--optimizer", "lion:beta3=1"], "no number 'beta3'"),
        (["--loss", "margn"], "did you mean 'margin'"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "mxtrain.fit", *data, *words],
            cwd=copy,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 2 and message in done.stderr
    assert "difference" in run(copy, "-m", "mxtrain.fit", "--help", "task")

    program = PROGRAM.replace("mine import", "mine_task import").replace(
        "task=Difference", 'task="difference"'
    )
    assert float(run(copy, "-c", program).split()[-1]) > 0.9
