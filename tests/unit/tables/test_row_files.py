"""Tables in checkpoints: what was written is there again, in any number of shares, whatever was deleted in between."""

from __future__ import annotations

import dataclasses
import json
import re
import resource
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.core.errors import DataError, OutOfResources, UsageError
from mxtrain.tables import hashing, placement, row_files
from mxtrain.tables.arena import Arena
from mxtrain.tables.options import TableOptions
from mxtrain.tables.row_files import ShareFiles
from mxtrain.tables.saved_table import SavedTable
from tests.support.breadth import slow_cases
from tests.support.checkout import ROOT
from tests.support.tables import WAYS, PlainTable, go_way, make_all_parts_small, steps

OPTIONS = TableOptions("user id", 3, seed=5, optimizer="sgd", admit_after=2, expire_after=5)


class Shares:
    """A table in several arenas, each with its files."""

    def __init__(self, options: TableOptions, num_shares: int):
        self.arenas = [Arena(options) for _ in range(num_shares)]
        self.files = [ShareFiles(arena, share, num_shares) for share, arena in enumerate(self.arenas)]

    def update(self, ids: Any, gradients: Any, step: int, rate: float) -> None:
        for arena, positions in zip(self.arenas, placement.split(ids, len(self.arenas))):
            arena.update(ids[positions], gradients[positions], step, rate)

    def expire(self, step: int) -> int:
        return sum(arena.expire(step) for arena in self.arenas)

    def save(self, folder: Path, previous: Path | None) -> dict[str, Any]:
        folder.mkdir()
        for each in self.files:
            each.begin(folder, previous)
        return {name: total for each in self.files for name, total in each.write().items()}

    def load(self, folder: Path) -> None:
        for each in self.files:
            each.read(folder)

    def rows(self, ids: Any) -> Any:
        rows = np.empty((len(ids), self.arenas[0].options.width), np.float32)
        for arena, positions in zip(self.arenas, placement.split(ids, len(self.arenas))):
            of_share = np.empty((len(positions), rows.shape[1]), np.float32)
            arena.read(ids[positions], of_share)
            rows[positions] = of_share
        return rows

    @property
    def num_rows(self) -> int:
        return sum(arena.num_rows for arena in self.arenas)

    @property
    def num_sightings(self) -> int:
        return sum(len(arena.sightings.records) for arena in self.arenas if arena.sightings)


def take(each: Any, step: Any) -> None:
    each.update(step.ids, step.gradients, step.number, step.rate)
    if step.number % 4 == 0:
        each.expire(step.number)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    make_all_parts_small(monkeypatch)
    monkeypatch.setattr(row_files, "MOST_CHANGED", 2.0)  # steps use nearly half of all ids


@pytest.mark.parametrize("num_shares, num_later", [(2, 3), (3, 1), *slow_cases((1, 1), (2, 2), (1, 2))])
def test_a_run_goes_on_as_if_it_had_not_been_stopped(
    small: None, tmp_path: Path, num_shares: int, num_later: int
) -> None:
    """From every checkpoint, whole or an increment; with rows and sightings that come, go and come again."""
    table, shares, previous = PlainTable(OPTIONS), Shares(OPTIONS, num_shares), None
    num_increments, used = 0, np.zeros(0, np.int64)
    for step in steps(3, OPTIONS.width, 15):
        take(table, step)
        take(shares, step)
        used = np.union1d(used, step.ids)
        if step.number < 3:
            continue
        folder = tmp_path / f"step-{step.number}"
        sums = shares.save(folder, previous)
        assert sorted(sums) == sorted(path.name for path in folder.iterdir())
        num_increments += sum(name.endswith(".rows.increment") for name in sums)
        if previous is not None:
            shutil.rmtree(previous)
        previous = folder
        if step.number % 3:
            continue
        again, plain = Shares(OPTIONS, num_later), dataclasses.replace(table, rows=dict(table.rows))
        plain.sightings = dict(table.sightings)
        again.load(folder)
        last, number = folder, step.number
        for later in steps(3, OPTIONS.width, number + 6, first=number + 1):
            take(plain, later)
            take(again, later)
            ids = np.union1d(used, later.ids)
            assert np.array_equal(again.rows(ids), [plain.row(id) for id in ids.tolist()])
            assert again.num_rows == len(plain.rows) and again.num_sightings == len(plain.sightings)
            where = tmp_path / f"again-{number}-{later.number}"
            again.save(where, last)
            last = where
            saved_table = SavedTable(where, OPTIONS.name)
            assert np.array_equal(saved_table.rows(ids), again.rows(ids))
    assert num_increments == 12 * num_shares


@pytest.mark.parametrize("optimizer", ["adam", "adagrad_row"])
def test_what_optimizers_remember_comes_back(tmp_path: Path, optimizer: str) -> None:
    options = TableOptions("t", 5, optimizer=optimizer)
    shares, again = Shares(options, 2), Shares(options, 3)
    for step in steps(1, 5, 4):
        take(shares, step)
    shares.save(tmp_path / "a", None)
    again.load(tmp_path / "a")
    for step in steps(1, 5, 8, first=5):
        take(shares, step)
        take(again, step)
    ids = np.sort(np.concatenate([arena.records.ids[: arena.num_rows] for arena in shares.arenas]))
    assert np.array_equal(shares.rows(ids), again.rows(ids)) and len(ids) == again.num_rows


def test_c_and_numpy_write_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_all_parts_small(monkeypatch)
    for way in WAYS:
        go_way(way, monkeypatch)
        shares, previous = Shares(OPTIONS, 2), None
        for step in steps(8, OPTIONS.width, 6):
            take(shares, step)
            shares.save(tmp_path / f"{way}-{step.number}", previous)
            previous = tmp_path / f"{way}-{step.number}"
    files = [path for path in tmp_path.rglob("C-*/*") if path.is_file()]
    assert len(files) > 24 and any(path.suffix == ".increment" for path in files)
    for path in files:
        twin = tmp_path / path.parent.name.replace("C", "NumPy") / path.name
        assert path.read_bytes() == twin.read_bytes()


def test_a_checkpoint_is_that_of_its_step_whatever_moves_meanwhile(tmp_path: Path) -> None:
    """With a thread that writes, as in training."""
    options = TableOptions("t", 8, optimizer="sgd", expire_after=2)
    shares, again, ids = Shares(options, 1), Shares(options, 1), np.arange(100_000)
    shares.update(ids, np.ones((len(ids), 8), np.float32), 1, 0.5)
    before = shares.rows(ids)
    shares.files[0].begin(tmp_path)
    thread = threading.Thread(target=shares.files[0].write)
    thread.start()
    for step in range(2, 12):
        shares.update(ids[step::3] * 2, np.ones((len(ids[step::3]), 8), np.float32), step, 0.5)
        shares.expire(step)
    assert not np.array_equal(shares.rows(ids), before)
    thread.join()
    again.load(tmp_path)
    assert np.array_equal(again.rows(ids), before) and again.num_rows == len(ids)


def test_after_one_row_in_a_hundred_moved_little_is_written(tmp_path: Path) -> None:
    options = TableOptions("t", 16)
    shares = Shares(options, 1)
    ids, gradients = np.arange(100_000), np.ones((100_000, 16), np.float32)
    shares.update(ids, gradients, 1, 0.1)
    whole = shares.save(tmp_path / "a", None)
    shares.update(ids[::100], gradients[::100], 2, 0.1)
    sums = shares.save(tmp_path / "b", tmp_path / "a")
    (base,), (name,) = whole, set(sums) - set(whole)
    assert sums[base] == whole[base] and (tmp_path / "a" / base).samefile(tmp_path / "b" / base)
    assert sums[name]["bytes"] < 0.011 * sums[base]["bytes"]
    shares.update(ids[::3], gradients[::3], 3, 0.1)
    assert (
        shares.save(tmp_path / "c", tmp_path / "b")[base] != whole[base]
    )  # and it is written as a whole again


def test_without_the_checkpoint_before_all_is_written(tmp_path: Path) -> None:
    shares = Shares(TableOptions("t", 2), 1)
    shares.update(np.arange(50), np.ones((50, 2), np.float32), 1, 0.1)
    shares.save(tmp_path / "a", None)
    shares.update(np.arange(5), np.ones((5, 2), np.float32), 2, 0.1)
    shutil.rmtree(tmp_path / "a")
    assert [*shares.save(tmp_path / "b", tmp_path / "a")] == ["t.0-of-1.rows"]


def test_a_full_disk_is_named_and_the_next_checkpoint_is_whole(tmp_path: Path) -> None:
    shares = Shares(TableOptions("t", 2), 1)
    shares.update(np.arange(5000), np.ones((5000, 2), np.float32), 1, 0.1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))  # stands for a full disk
    try:
        with pytest.raises(OutOfResources, match=r"t.0-of-1.rows: cannot be written .*; make room"):
            shares.save(tmp_path / "a", None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    shares.save(tmp_path / "b", tmp_path / "a")
    again = Shares(TableOptions("t", 2), 1)
    again.load(tmp_path / "b")
    assert again.num_rows == 5000


def saved(folder: Path) -> Path:
    """Save a table of 100 rows in two shares, and an increment; return the folder of this one."""
    shares = Shares(TableOptions("t", 2), 2)
    shares.update(np.arange(100), np.ones((100, 2), np.float32), 1, 0.1)
    shares.save(folder / "a", None)
    shares.update(np.arange(10), np.ones((10, 2), np.float32), 2, 0.1)
    shares.save(folder / "b", folder / "a")
    return folder / "b"


BASE, INCREMENT = "t.1-of-2.rows", "t.1-of-2.rows.increment"


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", [BASE, INCREMENT])
@pytest.mark.parametrize("damage", ["flipped", "cut", "longer", "other header", "empty", "missing"])
def test_damage_is_named(tmp_path: Path, name: str, damage: str) -> None:
    path = saved(tmp_path) / name
    content = path.read_bytes()
    if damage == "flipped":
        flip(path, -20)
    elif damage == "missing":
        path.unlink()
    else:
        changed = {"cut": content[:-1], "longer": content + b"\0", "empty": b"", "other header": content[1:]}
        path.write_bytes(changed[damage])
    if (name, damage) == (INCREMENT, "missing"):  # which the manifest of a checkpoint tells
        return
    with pytest.raises(DataError, match=r"t\.1-of-2\.rows.*put "):
        Shares(TableOptions("t", 2), 2).load(path.parent)
    if damage != "flipped":
        with pytest.raises(DataError, match=r"t\.1-of-2\.rows"):
            SavedTable(path.parent, "t")


@pytest.mark.parametrize(
    "options, says",
    [
        (TableOptions("t", 3), "rows of 2 numbers that adagrad_row moves, and table t has 3"),
        (
            TableOptions("t", 2, optimizer="adam"),
            "has 2, that adam moves; give it the width and the optimizer",
        ),
    ],
)
def test_another_table_is_refused(tmp_path: Path, options: TableOptions, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Shares(options, 1).load(saved(tmp_path))


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path) / BASE
    line, _, rest = path.read_bytes().partition(b"\n")
    path.write_bytes(json.dumps({**json.loads(line), "format_version": 9}).encode() + b"\n" + rest)
    with pytest.raises(UsageError, match="written in format 9"):
        Shares(TableOptions("t", 2), 2).load(path.parent)


def test_no_table_by_that_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"u\.0-of-1\.rows: not there"):
        SavedTable(saved(tmp_path), "u")


def test_the_reader_of_the_docs_reads_them(small: None, tmp_path: Path) -> None:
    """Twenty lines that know nothing of mxtrain."""
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "tables.md").read_text(), re.S | re.M)
    page: dict[str, Any] = {}
    exec(compile(code, "docs/tables.md", "exec"), page)
    table, shares, previous = PlainTable(OPTIONS), Shares(OPTIONS, 3), None
    num_increments = 0
    for step in steps(11, OPTIONS.width, 16):
        take(table, step)
        take(shares, step)
        folder = tmp_path / f"step-{step.number}"
        num_increments += sum("increment" in name for name in shares.save(folder, previous))
        ids, rows = page["rows_of"](folder, "user%20id")
        assert sorted(ids.tolist()) == sorted(table.rows)
        assert all(np.array_equal(row, table.rows[id].numbers) for id, row in zip(ids.tolist(), rows))
        previous = folder
    assert num_increments > 10
    ids = np.array([3, -9, 1 << 60])
    assert np.array_equal(page["mixed"](ids.view(np.uint64)), hashing.hashes_of(ids))
