"""A file of a format that this mxtrain does not know yet is refused: by its name, with both numbers and what to do."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sqlite3
import zlib
from pathlib import Path
from typing import Any, Callable

import pytest

import mxtrain
from mxtrain.checkpoint import directory, selection
from mxtrain.core import formats
from mxtrain.core.errors import UsageError
from mxtrain.data.arrays import array_fields
from mxtrain.data.text import tokens
from mxtrain.export import exported_net
from mxtrain.report import history
from mxtrain.report.page import page_data
from tests.golden.cases import FOLDER, SEARCHES, VERSIONS
from tests.support.commands import ROOT
from tests.support.processes import warm_start

NEWEST = FOLDER / VERSIONS[-1].name
STATE = Path("checkpoints", "step-00000005", "state.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the newest version's data, and of its run `plain`."""
    shutil.copytree(NEWEST / "data", tmp_path / "data")
    run = shutil.copytree(NEWEST / "killed" / "plain", tmp_path / "plain")
    shutil.copytree(NEWEST / "export", run / "export")
    return tmp_path


def raise_number(path: Path, key: str = formats.KEY) -> int:
    """Raise the format of a JSON file by one, also where a manifest beside it has its checksum, and return the old."""
    content = json.loads(path.read_text())
    number: int = content[key]
    path.write_text(json.dumps({**content, key: number + 1}))
    manifest = path.with_name("manifest.json")
    if manifest.exists():
        sums = json.loads(manifest.read_text())
        data = path.read_bytes()
        sums[path.name] = {"bytes": len(data), "crc32": f"{zlib.crc32(data):08x}"}
        manifest.write_text(json.dumps(sums))
    return number


def assert_refuses(read: Callable[[], Any], path: Path, known: int) -> None:
    said = f"{path}: written in format {known + 1}, this mxtrain {mxtrain.__version__} reads up to {known}; use the "
    with pytest.raises(UsageError, match=re.escape(said)):
        read()


READERS: dict[str, tuple[Path, str, Callable[[Path], Any]]] = {
    "checkpoint of a resume": (
        Path("plain") / STATE,
        "version",
        lambda run: directory.newest(run / "checkpoints"),
    ),
    "checkpoint by name": (Path("plain") / STATE, "version", lambda run: selection.select([run], "5")),
    "best checkpoint": (Path("plain") / STATE, "version", lambda run: selection.select([run])),
    "page": (Path("plain") / STATE, "version", lambda run: page_data.page_data([history.read(run)])),
    "records": (Path("plain", "environment.json"), formats.KEY, lambda run: history.read(run)),
    "tokens": (
        Path("data", "lm_train.tokens.json"),
        formats.KEY,
        lambda run: tokens.read_format(run.parent / "data" / "lm_train.rec"),
    ),
    "arrays": (
        Path("data", "arrays_train.arrays.json"),
        formats.KEY,
        lambda run: array_fields.read_sidecars([run.parent / "data" / "arrays_train.rec"]),
    ),
    "export": (
        Path("plain", "export", "symbol", "export.json"),
        formats.KEY,
        lambda run: exported_net.in_folder(run / "export" / "symbol"),
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_a_newer_file_is_refused(folder: Path, name: str) -> None:
    path, key, read = READERS[name]
    read(folder / "plain")
    known = raise_number(folder / path, key)
    assert_refuses(lambda: read(folder / "plain"), folder / path, known)


def test_a_command_says_it_in_one_line(folder: Path) -> None:
    raise_number(folder / "plain" / STATE, "version")
    done = warm_start.run("mxtrain.evaluate", ["--run", str(folder / "plain")], ROOT, timeout=60)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert f"{folder / 'plain' / STATE}: written in format 3, this mxtrain" in done.stderr


def test_a_number_that_is_none_is_damage(folder: Path) -> None:
    path = folder / "data" / "lm_train.tokens.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), formats.KEY: "two"}))
    with pytest.raises(
        Exception, match="says 'two' for its format, which is no number; put a whole copy there"
    ):
        tokens.read_format(folder / "data" / "lm_train.rec")


def test_a_newer_search_is_refused(folder: Path) -> None:
    from mxtrain.tune import study

    path = shutil.copytree(NEWEST / "searches" / "finished", folder / "search") / study.FILE
    assert VERSIONS[-1].name in SEARCHES
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        change = "UPDATE study_user_attributes SET value_json = ? WHERE key = ?"
        assert database.execute(change, (str(formats.SEARCH + 1), formats.KEY)).rowcount == 1
    assert_refuses(lambda: study.open_study(path.parent, {}, False), path, formats.SEARCH)
