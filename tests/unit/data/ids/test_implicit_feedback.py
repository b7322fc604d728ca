"""Rows of implicit feedback with negatives beside them: which items are drawn, and what comes with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.core.errors import DataError, Stop, UsageError
from mxtrain.data.arrays.table_selection import Selection
from mxtrain.data.ids import id_reader, id_tables, implicit_feedback
from mxtrain.data.ids.implicit_feedback import WithNegatives

NUM_USERS, NUM_ITEMS = 30, 12
CHOSEN = Selection("liked", categories="user,item,genre,place", lists="tags")
VALUE = "3:user=user,item=item/genre/price/tags,val=5"
HEAD = "liked,user,item,genre,place,price,tags\n"


def rows(seed: int, count: int = 5) -> list[tuple[int, int]]:
    rng = np.random.default_rng(seed)
    pairs = [
        (user, item) for user in range(NUM_USERS) for item in rng.choice(NUM_ITEMS, count, replace=False)
    ]
    rng.shuffle(pairs)
    return [(int(user), int(item)) for user, item in pairs]


def write(path: Path, pairs: list[tuple[int, int]], liked: int = 1) -> Path:
    lines = [
        f"{liked},u{user},{item},g{item % 3},p{number},{item / 4},{'|'.join(map(str, range(item % 4)))}"
        for number, (user, item) in enumerate(pairs)
    ]
    path.write_text(HEAD + "\n".join(lines) + "\n")
    return path


def opened(folder: Path, seed: int = 0, name: str = "train.csv") -> Any:
    return id_tables.open_records(write(folder / name, rows(seed)), CHOSEN)


def with_negatives(positives: Any, value: str = VALUE, seed: int = 7, trained: Any = None) -> WithNegatives:
    wanted = implicit_feedback.parse(value)
    assert wanted is not None
    found: WithNegatives = implicit_feedback.beside(positives, wanted, seed, trained)
    return found


def columns(data: Any, positions: Any) -> Any:
    """The columns of samples, and their labels, as the reader gets them."""
    return id_reader.columns_of(data, np.asarray(positions), data.layout.inputs, True)


def items_of(positives: Any) -> dict[int, tuple[Any, ...]]:
    """What belongs to each item, by its id."""
    found, _ = columns(positives, np.arange(len(positives)))
    return {
        ids[1]: (ids[2], number[0], tuple(tags))
        for ids, number, tags in zip(found["ids"].tolist(), found["numbers"].tolist(), lists(found["tags"]))
    }


def lists(tags: Any) -> list[list[int]]:
    return [tags.rows[start : start + length].tolist() for start, length in zip(tags.starts, tags.lengths)]


def test_a_negative_is_a_row_with_an_item_that_its_user_has_not_chosen(tmp_path: Path) -> None:
    positives = opened(tmp_path)
    data = with_negatives(positives)
    assert len(data) == 4 * len(positives) == len(data.labels()) and data.labels().sum() == len(positives)
    of_items = items_of(positives)
    plain, _ = columns(positives, np.arange(len(positives)))
    pairs = {tuple(ids[:2]) for ids in plain["ids"].tolist()}
    found, labels = columns(data, np.arange(len(data)))
    assert np.array_equal(labels, data.labels())
    for sample, (ids, number, tags) in enumerate(
        zip(found["ids"].tolist(), found["numbers"].tolist(), lists(found["tags"]))
    ):
        of_row = plain["ids"][sample // 4].tolist()
        assert (ids[0], ids[3]) == (of_row[0], of_row[3]) and of_items[ids[1]] == (
            ids[2],
            number[0],
            tuple(tags),
        )
        assert ((ids[0], ids[1]) in pairs) == (sample % 4 == 0) == (ids[1] == of_row[1])
    assert "row 2, negative 3" in data.where(3) and data.where(4).endswith("row 3")


def test_what_is_drawn_follows_from_seed_epoch_and_row(tmp_path: Path) -> None:
    data = with_negatives(opened(tmp_path))
    whole, _ = columns(data, np.arange(len(data)))
    order = np.random.default_rng(0).permutation(len(data))
    some, _ = columns(data, order[:50])
    assert np.array_equal(some["ids"], whole["ids"][order[:50]]) and lists(some["tags"]) == [
        lists(whole["tags"])[each] for each in order[:50]
    ]
    for position in order[:20].tolist():  # one by one as well
        record = data.read(position)
        arrays = id_reader.of_sample(data.layout.inputs[:1], {"ids": record.payload["ids"]})
        assert (
            np.array_equal(arrays["ids"], whole["ids"][position]) and record.label == data.labels()[position]
        )
    later, _ = columns(data, np.arange(len(data)) + 3 * len(data))
    differs = (later["ids"] != whole["ids"]).any(axis=1)
    assert not differs[::4].any() and differs.mean() > 0.5
    both, _ = columns(data, np.stack([np.arange(9), np.arange(9) + 3 * len(data)], axis=1).ravel())
    assert np.array_equal(both["ids"][::2], whole["ids"][:9]) and np.array_equal(
        both["ids"][1::2], later["ids"][:9]
    )
    other, _ = columns(with_negatives(opened(tmp_path), seed=8), np.arange(len(data)))
    assert (other["ids"] != whole["ids"]).any()


def test_rows_to_evaluate_on_draw_nothing_that_was_chosen_in_training(tmp_path: Path) -> None:
    trained, val = opened(tmp_path), opened(tmp_path, 1, "val.csv")
    data = with_negatives(val, trained=trained)
    assert len(data) == 6 * len(val)
    pairs = {
        tuple(ids[:2])
        for each in (trained, val)
        for ids in columns(each, np.arange(len(each)))[0]["ids"].tolist()
    }
    found, labels = columns(data, np.arange(len(data)))
    negatives = found["ids"][labels == 0].tolist()
    assert len(negatives) == 5 * len(val) and not any(tuple(ids[:2]) in pairs for ids in negatives)
    of_items = {**items_of(val), **items_of(trained)}
    assert all(of_items[ids[1]][0] == ids[2] for ids in negatives)


def test_rows_with_candidates_of_their_own_get_none(tmp_path: Path) -> None:
    trained = opened(tmp_path)
    write(tmp_path / "val.csv", rows(1)[:9])
    with (tmp_path / "val.csv").open("a") as file:
        file.write("0,u1,2,g2,p1,0.5,\n")
    val = id_tables.open_records(tmp_path / "val.csv", CHOSEN)
    assert with_negatives(val, trained=trained) is val
    with pytest.raises(DataError, match=r"val.csv: row 11: --negatives draws rows with a target of 0"):
        with_negatives(val)


def test_a_user_who_has_chosen_everything_is_named(tmp_path: Path) -> None:
    pairs = [*rows(0)[:40], *((31, item) for item in range(NUM_ITEMS))]
    positives = id_tables.open_records(write(tmp_path / "a.csv", pairs), CHOSEN)
    with pytest.raises(DataError, match=r"a.csv: row 42: its user has chosen all 12 of item"):
        with_negatives(positives)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("x", "give a number from 1 to 10000 where 'x' is"),
        ("0", "where '0' is"),
        ("3:val=-1", "where '-1' is"),
        ("3:user", "user is none of user=, item= and val="),
        ("3:items=a", "items=a is none of"),
        ("3:user=usr", "usr is no column of categories; did you mean 'user'?"),
        ("3:item=price", "price is no column of categories"),
        ("3:item=item/gnre", "gnre is no column that the net takes"),
    ],
)
def test_a_wrong_value_is_refused(value: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(Stop) as caught:
        with_negatives(opened(tmp_path), value)
    assert isinstance(caught.value, UsageError) and message in str(caught.value)
