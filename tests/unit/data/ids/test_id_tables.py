"""Tables with ids: which column is what, the same ids from every format, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from mxtrain.core.errors import DataError, Stop, UsageError
from mxtrain.data.arrays.array_sets import ArrayRecords
from mxtrain.data.arrays.table_selection import Selection
from mxtrain.data.ids import id_columns, id_tables, text_tables
from mxtrain.tables import hashing

LARGE = 2**62 + 1  # which float64 does not hold
USERS, SHOPS = [LARGE, 2, LARGE, 7], ["a", "b", "", "ä"]
BOUGHT = [[1, LARGE], [], [5], [5, 6, 7]]
AGES = [30.5, 20.0, 40.0, 25.0]
CLICKS = [1.0, 0.0, 0.0, 1.0]
CHOSEN = Selection("click", categories="user,shop", lists="bought")
TEXT = (
    f"click,user,shop,bought,age\n1,{LARGE},a,1|{LARGE},30.5\n0,2,b,,20\n0,{LARGE},,5,40\n1, 7 ,ä,5|6|7,25\n"
)


def csv(folder: Path, text: str, name: str = "a.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def parquet(folder: Path) -> Path:
    columns = {"click": CLICKS, "user": USERS, "shop": SHOPS, "bought": BOUGHT, "age": AGES}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "a.parquet")
    return folder / "a.parquet"


def npz(folder: Path) -> Path:
    items = [item for row in BOUGHT for item in row]
    bought: Any = {"bought": np.array(items), "bought_lengths": list(map(len, BOUGHT))}
    np.savez(folder / "a.npz", click=CLICKS, user=USERS, shop=SHOPS, **bought, age=AGES)
    return folder / "a.npz"


def samples(records: ArrayRecords) -> list[dict[str, Any]]:
    return [
        {name: array.tolist() for name, array in records.read(position).payload.items()}
        for position in range(len(records))
    ]


def ids(column: str, *values: Any) -> list[int]:
    own = [value if isinstance(value, int) else hashing.ids_of([value])[0] for value in values]
    found: list[int] = id_columns.of_column(column, np.array(own, np.int64)).tolist()
    return found


def test_columns_become_ids_numbers_and_lists(tmp_path: Path) -> None:
    found = id_tables.open_records(csv(tmp_path, TEXT), CHOSEN)
    assert [(each.name, each.shape, each.dtype) for each in found.layout.inputs] == [
        *(("ids", (2,), "int64"), ("numbers", (1,), "float32"), ("bought", (100,), "int64"))
    ]
    assert found.layout.targets == ("click",) and found.labels().tolist() == CLICKS
    assert samples(found) == [
        {
            "ids": [*ids("user", user), *ids("shop", shop)],
            "numbers": [age],
            "bought": ids("bought", *bought),
        }
        for user, shop, age, bought in zip(USERS, SHOPS, AGES, BOUGHT)
    ]
    assert found.where(1).endswith("a.csv: row 3")


@pytest.mark.parametrize("write", [parquet, npz])
def test_every_format_gives_the_same_samples(write: Any, tmp_path: Path) -> None:
    text = id_tables.open_records(csv(tmp_path, TEXT), CHOSEN)
    other = id_tables.open_records(write(tmp_path), CHOSEN)
    assert samples(other) == samples(text)
    assert other.labels().tolist() == text.labels().tolist()


def test_missing_values_of_parquet(tmp_path: Path) -> None:
    columns = {
        "user": pyarrow.array([LARGE, None]),
        "shop": [None, "b"],
        "bought": pyarrow.array([None, [LARGE, None, 3]]),
        "named": pyarrow.array([["x", None, "17"], None]),
        "age": pyarrow.array([None, 3]),
        "y": [1, 0],
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    found = id_tables.open_records(
        tmp_path / "a.parquet", Selection(categories="user,shop", lists="bought", missing="0")
    )
    assert samples(found) == [
        {
            "ids": [*ids("user", LARGE), *ids("shop", "")],
            "numbers": [0, 1],
            "bought": [],
            "named": ids("named", "x", 17),
        },
        {
            "ids": [*ids("user", ""), *ids("shop", "b")],
            "numbers": [3, 0],
            "bought": ids("bought", LARGE, 3),
            "named": [],
        },
    ]


def test_the_same_id_is_another_row_in_another_column() -> None:
    assert len({*ids("user", 3), *ids("item", 3)}) == 2


def test_words_are_ids_where_no_flag_says_so(tmp_path: Path) -> None:
    found = id_tables.open_records(csv(tmp_path, "y,shop,age\n1,a,3\n0,4,5\n"), Selection())
    assert found.layout.inputs[0].names == ("shop",) and found.layout.inputs[1].names == ("age",)


def test_criteo_has_no_line_of_names(tmp_path: Path) -> None:
    rows = [[str(k % 2), *([str(k)] * 12), "9"[k:], *(f"{k:08x}" for _ in range(26))] for k in range(3)]
    path = csv(tmp_path, "\n".join("\t".join(row) for row in rows), "day.tsv")
    found = id_tables.open_records(path, Selection(column_names="criteo", missing="0", log_columns="I1,I2"))
    ids_of_criteo, numbers, *_ = found.layout.inputs
    assert len(ids_of_criteo.names) == 26 and numbers.names[0] == "I1" and "I13=missing" in numbers.names
    assert samples(found)[2]["ids"][0] == ids("C1", "00000002")[0]
    assert samples(found)[2]["numbers"][:3] == pytest.approx([np.log1p(2), np.log1p(2), 2])
    assert found.labels().tolist() == [0, 1, 0] and found.where(1).endswith("row 2")


@pytest.mark.parametrize("ending", ["", "\n", "\n\n", "\r\n"])
def test_pieces_of_a_text_are_all_its_rows(
    ending: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    newline = "\r\n" if ending == "\r\n" else "\n"
    rows = [f"{k % 2},u{k},{k}.5" for k in range(50)]
    path = tmp_path / "a.csv"
    path.write_bytes((newline.join(["y,user,age", *rows]) + ending).encode())
    whole = id_tables.open_records(path, Selection())
    monkeypatch.setattr(text_tables, "AT_ONCE", 64)
    assert samples(id_tables.open_records(path, Selection())) == samples(whole)
    assert samples(whole)[49] == {"ids": ids("user", "u49"), "numbers": [49.5]}


def test_tables_with_quotes_are_read_some_rows_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f'{row % 2},"u{row}, the ""{row}th""\nof all",{row / 2}\r\n' for row in range(7)]
    quoted = csv(tmp_path, "y,user,age\n" + "\n".join(rows))  # with empty lines between them
    whole = samples(id_tables.open_records(quoted, Selection()))
    assert len(whole) == 7 and whole[3]["ids"] == ids("user", 'u3, the "3th"\nof all')
    monkeypatch.setattr(text_tables, "ROWS_AT_ONCE", 2)
    assert samples(id_tables.open_records(quoted, Selection())) == whole
    for text, words in (
        ('y,user\n1,"a"\n0,b\n1,c\n0,"d\n1,e\n', "line 5 has a quote that nothing closes"),
        ('y,user\n1,"a"\n0,b\n1,c\n0\n', "row 5 has 1 cells, and there are 2 columns"),
        ('y,user\n1,"a"\n', None),
    ):
        path = csv(tmp_path, text, "b.csv")
        if words is None:
            path.write_bytes(path.read_bytes() + b'0,"\xff"\n')
            words = "is not UTF-8 text"
        with pytest.raises(DataError, match=words):
            id_tables.open_records(path, Selection())
    with pytest.raises(DataError, match="holds no samples"):
        id_tables.open_records(csv(tmp_path, 'y,"user"\n', "c.csv"), Selection())


def test_quotes_are_those_of_csv(tmp_path: Path) -> None:
    found = id_tables.open_records(csv(tmp_path, 'y,shop\n1,"a, b"\n0,"c\nd"\n'), Selection())
    assert samples(found) == [{"ids": ids("shop", "a, b")}, {"ids": ids("shop", "c\nd")}]


def test_the_last_ids_of_a_long_list_count(tmp_path: Path) -> None:
    path = csv(tmp_path, "y,bought\n1,1;2;3\n0,4\n0,5;6\n".replace(",", "\t"), "a.tsv")
    found = id_tables.open_records(path, Selection(lists="bought", list_separator=";", list_length=2))
    assert samples(found) == [{"bought": ids("bought", *row)} for row in ([2, 3], [4], [5, 6])]


def test_others_are_read_as_the_training_set(tmp_path: Path) -> None:
    train = id_tables.open_records(csv(tmp_path, TEXT), CHOSEN)
    text = "age,extra,bought,user,shop,click\n,x,9,1,2,1\n"
    mended = text.replace("\n,", "\n33,")
    found = id_tables.open_records(csv(tmp_path, mended, "b.csv"), Selection("click"), train.layout.inputs)
    assert samples(found) == [
        {"ids": [*ids("user", 1), *ids("shop", 2)], "numbers": [33], "bought": ids("bought", 9)}
    ]
    with pytest.raises(DataError, match=r"b\.csv: row 2: its age is empty"):
        id_tables.open_records(csv(tmp_path, text, "b.csv"), Selection("click"), train.layout.inputs)


@pytest.mark.parametrize(
    ("text", "flags", "words"),
    [
        ("y,a\n1,2\n0,3\n", {}, "no column is one of ids; name some by --categories or --lists"),
        ("y,a\n1,2\n0,3\n", {"categories": "b"}, "--categories b: .* has no column b"),
        ("y,a\n1,2\n0,3\n", {"categories": "y"}, "y is to be predicted"),
        ("y,a,b\n1,2,3\n", {"categories": "a", "inputs": "b"}, "a is not among the columns that the net"),
        ("y,a\n1,2\n", {"categories": "a", "lists": "a"}, "--categories and --lists both name a"),
        ("q,a\n1,x\n", {}, "what is to be predicted\\?"),
        ("y,a\n1,x\nyes,z\n", {}, "row 3: its y is 'yes', no number"),
        ("y,a\n1,x\n,z\n", {}, "row 3: what is to be predicted is missing"),
        ("y,a,b\n1,x,3\n0,x\n", {}, "row 3 has 2 cells, and there are 3 columns"),
        ("y,a,b\n1,x,3\n0,x,\n", {}, "row 3: its b is empty, or no finite number; 1 such: .*--missing mean"),
        ("y,a,b\n1,x,3\n", {"log_columns": "a"}, "--log-columns a: a is no column of numbers"),
        ("y,ids\n1,x\n", {"lists": "ids"}, "a column of lists is called ids"),
        ("1,2,x\n", {}, "its first line has numbers, .* or give --column-names"),
        ("1,2,x\n", {"column_names": "y,a"}, "--column-names y,a: 2 names, and the first line of .* 3 cells"),
        ("1,2,x\n", {"column_names": "y,a,a"}, "names a column twice"),
        ("y,a\n", {}, "holds no samples"),
        ("", {}, "is empty"),
        ("y,a\n1,x\n", {"list_separator": "||"}, "--list-separator '\\|\\|': give one character"),
    ],
)
def test_what_is_refused(text: str, flags: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(Stop, match=words) as refused:
        id_tables.open_records(csv(tmp_path, text), Selection(**flags))
    assert "\n" not in str(refused.value)


def test_a_word_among_numbers_behind_those_that_are_looked_at(tmp_path: Path) -> None:
    rows = ["y,a,b", *(f"{k % 2},x,{k}" for k in range(1200)), "1,x,abc"]
    with pytest.raises(
        DataError, match=r"row 1202: its b is 'abc', no number: mend it, or give --categories b"
    ):
        id_tables.open_records(csv(tmp_path, "\n".join(rows)), Selection())


def test_lists_where_one_id_is_taken(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match="sample 0: its bought is a list of ids, and one is taken; give --lists"
    ):
        id_tables.open_records(parquet(tmp_path), Selection("click", categories="bought"))


def test_fractions_are_no_ids(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", user=[1.0, 2.5], y=[0, 1])
    with pytest.raises(DataError, match=r"sample 1: its user is 2\.5, and ids are whole numbers, or texts"):
        id_tables.open_records(tmp_path / "a.npz", Selection(categories="user"))


def test_a_column_that_is_not_there_later(tmp_path: Path) -> None:
    train = id_tables.open_records(csv(tmp_path, TEXT), CHOSEN)
    other = csv(tmp_path, "click,user,bought,age\n1,2,3,4\n", "b.csv")
    with pytest.raises(DataError, match="has no column called shop, which the net takes"):
        id_tables.open_records(other, CHOSEN, train.layout.inputs)


def test_a_damaged_parquet_file(tmp_path: Path) -> None:
    path = parquet(tmp_path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="no Parquet file, or a damaged one"):
        id_tables.open_records(path, CHOSEN)
    with pytest.raises(UsageError, match="is no table by its name"):
        id_tables.open_records(tmp_path / "a.txt", CHOSEN)
