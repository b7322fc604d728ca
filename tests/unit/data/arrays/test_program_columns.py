"""Columns of a program: the same samples as of a file of the same columns, and what is refused."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays import program_columns, tables
from mxtrain.data.arrays.table_selection import Selection
from mxtrain.data.fingerprint import fingerprint_of
from mxtrain.data.ids import id_tables
from mxtrain.data.interfaces import Records

pandas = pytest.importorskip("pandas")

LARGE = 2**62 + 1  # which float64 does not hold
MEMORY = Path("memory")
CHOSEN = Selection("click", categories="user,shop", lists="bought", missing="0")
COLUMNS: dict[str, Any] = {
    "click": np.array([1.0, 0, 0, 1]),
    "user": np.array([LARGE, 2, LARGE, 7]),
    "shop": np.array(["a", "b", "", "ä"]),
    "bought": [[1, LARGE], [], [5], [5, 6, 7]],
    "age": np.array([30.5, np.nan, 40, 25], np.float32),
}


def of_ids(columns: Any, selection: Selection = CHOSEN) -> Records:
    found = program_columns.columns_of(columns, "--train memory")
    return id_tables.records_of(id_tables.of_columns(MEMORY, found, selection))


def samples(records: Records) -> list[Any]:
    return [
        (record.label, {name: (array.dtype, array.tolist()) for name, array in record.payload.items()})
        for record in map(records.read, range(len(records)))
    ]


def npz(folder: Path) -> Path:
    bought = COLUMNS["bought"]
    items = {
        "bought": np.array([item for row in bought for item in row]),
        "bought_lengths": np.array(list(map(len, bought))),
    }
    np.savez(folder / "a.npz", **{**COLUMNS, **items})
    return folder / "a.npz"


AS = {
    "a mapping": COLUMNS,
    "lists": {name: list(column) for name, column in COLUMNS.items()},
    "columns of pandas": {name: pandas.Series(column) for name, column in COLUMNS.items()},
    "a DataFrame": pandas.DataFrame(COLUMNS, index=[9, 3, 3, 1]),
    "categories, texts and numbers that may be missing": pandas.DataFrame(COLUMNS).astype(
        {"user": "Int64", "shop": "category", "age": "Float32"}
    ),
    "lists of texts": {**COLUMNS, "bought": [["1", str(LARGE)], None, ("5",), np.array(["5", "6", "7"])]},
}


@pytest.mark.parametrize("columns", AS.values(), ids=AS)
def test_columns_of_a_program_are_those_of_a_file(columns: Any, tmp_path: Path) -> None:
    from_file, found = id_tables.open_records(npz(tmp_path), CHOSEN), of_ids(columns)
    assert samples(found) == samples(from_file)
    assert found.layout == from_file.layout  # type: ignore[attr-defined]
    assert fingerprint_of(found) == fingerprint_of(from_file)


@pytest.mark.parametrize("name", ["user", "shop", "bought", "age", "click"])
def test_another_value_is_another_fingerprint(name: str) -> None:
    changed = list(COLUMNS[name])
    changed[2] = {"bought": [6], "shop": "b"}.get(name, 1)
    before, now = fingerprint_of(of_ids(COLUMNS)), fingerprint_of(of_ids({**COLUMNS, name: changed}))
    assert before != now and set(before) == {"labels", "contents"}
    assert (before["contents"] == now["contents"]) == (name == "click")


def test_cells_that_are_missing() -> None:
    columns = {
        "user": [LARGE, None, float("nan"), pandas.NA],
        "small": pandas.array([5, None, 7, 8], dtype="Int64"),
        "shop": np.array(["a", None, "a", "b"], object),
        "day": [None, datetime.date(2024, 5, 1), None, datetime.date(2024, 5, 2)],
        "both": [3, "3", "x", None],
        "y": [True, False, True, False],
    }
    found = of_ids(columns, Selection(categories="user,small,shop,day,both"))
    user, small, shop, day, both = np.array([found.read(row).payload["ids"] for row in range(4)]).T
    assert user[0] != user[1] == user[2] == user[3]
    assert len(set(small)) == 4 and shop[0] == shop[2] != shop[1] and day[0] == day[2] != day[3]
    assert both[0] == both[1] != both[2] != both[3]
    assert found.labels().tolist() == [1, 0, 1, 0]


def test_arrays_are_chosen_by_flags_too(tmp_path: Path) -> None:
    columns = {"size": np.arange(4.0), "colour": ["r", "g", "g", "r"], "note": ["a", "b", "c", "d"]}
    columns = {**columns, "price": [1.5, 2, 3, 4]}
    text = "\n".join(",".join(map(str, row)) for row in [tuple(columns), *zip(*columns.values())])
    (tmp_path / "a.csv").write_text(text)
    selection = Selection("price", exclude="note", categories="colour")
    from_file = tables.open_records(tmp_path / "a.csv", selection)
    for own in (columns, pandas.DataFrame(columns)):
        found = tables.of_columns(MEMORY, program_columns.columns_of(own, "memory"), selection)
        assert samples(tables.records_of(found)) == samples(from_file)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"user": [1, 2]}, r"its arrays are of different numbers of samples \(click: 4, user: 2"),
        ({"user": 5}, "user is a int; give an array or a list, a value for each sample"),
        ({"user": "abcd"}, "user is a str; give an array"),
        ({"user": np.zeros(4, complex)}, "user holds complex128, no ids and no numbers"),
        ({"user": np.array([1.5, 2, 3, 4])}, "sample 0: its user is 1.5, and ids are whole numbers"),
        ({"bought": [[1], 2, [3], [4]]}, "bought holds lists, and 2 among them; give a list in each row"),
        ({"bought": [[[1]], [[2]], [[3]], [[4]]]}, r"bought holds .*no ids and no numbers"),
        ({"bought": [[[1, 2], [3]], [], [], []]}, "bought holds lists of lists; leave it out by --exclude"),
        (
            {"age": np.array([1, np.inf, 3, 4])},
            "memory: sample 1: its age holds .* 1 such: mend them, fill them by --missing mean$",
        ),
        ({"age": ["1", "x", "3", "4"], "shop": ["a"] * 4}, None),
    ],
)
def test_what_no_net_takes_is_refused(changed: Any, words: str | None) -> None:
    if words is None:  # a column of words is one of ids
        assert of_ids({**COLUMNS, **changed}).layout.inputs[0].names == ("user", "shop", "age")  # type: ignore
        return
    with pytest.raises((DataError, UsageError), match=words):
        of_ids({**COLUMNS, **changed})


def test_tables_without_columns_or_rows() -> None:
    with pytest.raises(DataError, match="--train memory holds no columns"):
        of_ids({})
    with pytest.raises(DataError, match="--train memory holds no samples"):
        of_ids({"user": [], "y": []})
    with pytest.raises(UsageError, match="names column 'a' twice"):
        of_ids(pandas.DataFrame(np.zeros((2, 2)), columns=["a", "a"]))
    with pytest.raises(UsageError, match="--column-names x,y: memory has names of its own"):
        of_ids(COLUMNS, CHOSEN._replace(column_names="x,y"))
