"""Columns that share rows: the same ids wherever they are read, what a net remembers, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays import array_fields
from mxtrain.data.arrays.table_selection import Selection
from mxtrain.data.ids import id_columns, id_tables, shared_rows
from mxtrain.tasks import registry
from mxtrain.train.open_data import open_source
from tests.support.data.pack_command import in_this_process

TEXT = "y,user,friend,item,seen,age\n1,3,4,3,4|3,5\n0,4,3,9,3,6\n"
FLAGS = ["--target", "y", "--categories", "user,friend,item", "--lists", "seen"]
SHARED = "user=friend,item=seen"


def table(folder: Path, text: str = TEXT) -> Path:
    (folder / "a.csv").write_text(text)
    return folder / "a.csv"


def of(name: str, *numbers: int) -> list[int]:
    found: list[int] = id_columns.of_column(name, np.array(numbers)).tolist()
    return found


def test_an_id_means_the_same_row_in_columns_that_share(tmp_path: Path) -> None:
    selection = Selection("y", categories="user,friend,item", lists="seen", shared_embedding=SHARED)
    found = id_tables.open_records(table(tmp_path), selection)
    first = found.read(0).payload
    assert first["ids"].tolist() == [*of("user", 3, 4), *of("item", 3)]
    assert first["seen"].tolist() == of("item", 4, 3)
    ids, _, seen = found.layout.inputs
    assert (ids.rows_of, seen.rows_of) == (("user", "user", "item"), ("item",))
    for each in found.layout.inputs:  # as a net keeps them
        assert array_fields.input_of_json(json.loads(json.dumps(each.as_json()))) == each
    again = id_tables.open_records(table(tmp_path), Selection("y"), found.layout.inputs)
    assert again.read(0).payload["ids"].tolist() == first["ids"].tolist()
    values = {"user": 3, "friend": 4, "item": 3, "seen": [4, 3], "age": 5}
    one = id_tables.sample(values, found.layout.inputs, Selection())
    assert one["ids"].tolist() == first["ids"].tolist() and one["seen"].tolist() == first["seen"].tolist()


def test_what_shares_nothing_is_as_it_was(tmp_path: Path) -> None:
    selection = Selection("y", categories="user,friend,item", lists="seen")
    found = id_tables.open_records(table(tmp_path), selection)
    assert all("rows_of" not in each.as_json() for each in found.layout.inputs)
    assert found.read(0).payload["ids"].tolist() == [*of("user", 3), *of("friend", 4), *of("item", 3)]


def test_records_know_who_shares(tmp_path: Path) -> None:
    source = table(tmp_path)
    pack = ["pack", source, tmp_path / "rec", "--from", "ids", *FLAGS, "--no-shuffle"]
    done = in_this_process(*pack, "--shared-embedding", SHARED)
    assert done.returncode == 0, done.stderr
    rec = str(tmp_path / "rec" / "data.rec")
    flags = ["--task", "recommendation", "--train", rec, "--target", "y"]

    def task_of(*others: str, val: str | None = None) -> Any:
        run = config.parse([*flags, *others])
        opened = open_source("--train", rec, run)
        return registry.of_data(run, opened, open_source("--val", val, run, opened) if val else None)

    for others in ([], ["--shared-embedding", SHARED]):
        assert shared_rows.of_inputs(task_of(*others, val=str(source)).inputs) == {
            "friend": "user",
            "seen": "item",
        }
    with pytest.raises(DataError, match="do not share rows as --shared-embedding user=item says"):
        task_of("--shared-embedding", "user=item")
    done = in_this_process(*pack[:2], tmp_path / "other", *pack[3:])
    assert done.returncode == 0, done.stderr
    with pytest.raises(DataError, match="its columns share other rows than those of the net"):
        task_of(val=str(tmp_path / "other" / "data.rec"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("user", "user names no columns that share rows; give them as in user=friend"),
        ("user=", "names no columns that share rows"),
        ("=friend", "names no columns that share rows"),
        ("user=friend/", "names no columns that share rows"),
        ("user=user", "names user twice"),
        ("user=friend,item=friend", "names friend twice"),
        (
            "user=friend,friend=item",
            "friend has the rows of user; name what shares them there, user=friend/...",
        ),
        ("user=frend", "frend is no column of ids; did you mean 'friend'"),
        (
            "usr=friend",
            r"usr is no column of ids.*\(user, friend, item, seen\); --categories and --lists say",
        ),
        ("user=age", "age is no column of ids"),
    ],
)
def test_what_cannot_be_shared_is_refused(text: str, words: str, tmp_path: Path) -> None:
    selection = Selection("y", categories="user,friend,item", lists="seen", shared_embedding=text)
    with pytest.raises(UsageError, match=words):
        id_tables.open_records(table(tmp_path), selection)


def test_other_tasks_refuse_the_flag(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--shared-embedding goes with --task recommendation"):
        registry.check_flags(config.parse(["--task", "arrays", "--shared-embedding", "a=b"]))
    (tmp_path / "n.npz").write_bytes(b"")
    done = in_this_process(
        "pack", tmp_path / "n.npz", tmp_path / "o", "--from", "arrays", "--shared-embedding", "a=b"
    )
    assert done.returncode == 2 and "--shared-embedding" in done.stderr


def test_sidecars_that_make_no_sense_are_refused() -> None:
    described = {"name": "ids", "shape": [2], "dtype": "int64", "varies": False, "names": ["a", "b"]}
    with pytest.raises(ValueError, match="whose rows"):
        array_fields.input_of_json({**described, "rows_of": ["a"]})
