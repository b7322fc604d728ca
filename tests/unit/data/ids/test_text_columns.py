"""Columns of text: which ids, lists and numbers their cells are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from mxtrain.data.ids import text_columns
from mxtrain.tables import hashing

LARGEST = 2**63 - 1


def ids(*texts: str) -> list[int]:
    found: list[int] = text_columns.ids(text_columns.of_texts(texts)).tolist()
    return found


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("17", 17), ("-3", -3), ("17.0", 17), (str(LARGEST), LARGEST)]
)
def test_a_whole_number_is_its_own_id(text: str, number: int) -> None:
    assert ids("x", text, "") == [*ids("x"), number, *ids("")]


@pytest.mark.parametrize(
    "text", ["", "a", "007", "-0", "-", "1e3", "3.5", "1_000", "+3", " 3", "ä", str(LARGEST + 1), "9" * 30]
)
def test_any_other_text_has_its_hash(text: str) -> None:
    assert ids("5", text) == [5, hashing.ids_of([text])[0]]


@given(some.lists(some.integers(-LARGEST, LARGEST)))
def test_numbers_keep_all_their_digits(numbers: list[int]) -> None:
    assert ids(*map(str, numbers)) == numbers


@given(some.lists(some.text()))
def test_cells_are_texts_again(texts: list[str]) -> None:
    texts = [text for text in texts if text.isprintable()]
    column = text_columns.of_texts(texts)
    assert [column.text(row) for row in range(len(column))] == texts
    stripped = text_columns.stripped(column)
    assert [stripped.text(row) for row in range(len(column))] == [text.strip(" ") for text in texts]


@given(some.lists(some.lists(some.sampled_from(["", "a", "17", "ü", "bb"]), min_size=1)))
def test_lists_are_their_items(rows: list[list[str]]) -> None:
    items, lengths = text_columns.lists(text_columns.of_texts(["|".join(row) for row in rows]), "|")
    rows = [[] if row == [""] else row for row in rows]  # an empty cell is an empty list
    assert [items.text(row) for row in range(len(items))] == [item for row in rows for item in row]
    assert lengths.tolist() == list(map(len, rows))


def test_numbers_and_what_is_none() -> None:
    column = text_columns.of_texts(["2", "", "-1.5e2", "x", "NaN", "12345678901234567890"])
    found, wrong = text_columns.numbers(column)
    np.testing.assert_array_equal(found, [2, math.nan, -150, math.nan, math.nan, 1.2345678901234567e19])
    assert wrong.tolist() == [3]
