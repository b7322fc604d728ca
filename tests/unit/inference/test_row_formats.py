"""Rows of answers: what stands in them, and odd names."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.core.errors import UsageError
from mxtrain.inference import output_files, row_formats
from mxtrain.inference.row_formats import RowFormat
from mxtrain.tasks.targets import several_labels

CLASSES = {"classes": [{"class": "=SUM(A1)", "probability": 0.75}, {"class": 'a "b"', "probability": 0.25}]}
ROW_FORMAT = RowFormat(
    "image", lambda shown: ", ".join(str(each["class"]) for each in shown["classes"]), ("x" * 8,)
)
ODD = ['a,"b".png', "two\nlines.png", "=cmd|' /C calc'!A0", "+1", "-1.png", "@x", "ü 東京.png"]


def rows(name: str, *answers: tuple[str, Any], row_format: RowFormat = ROW_FORMAT) -> str:
    row = row_formats.row_of(name, row_format)
    return "".join(row(*each) for each in answers)


def test_a_csv_gives_odd_names_back_and_runs_in_no_spreadsheet() -> None:
    header, *found = csv.reader(io.StringIO(rows("csv", *((name, CLASSES) for name in ODD))))
    assert header == ["image", "class_1", "probability_1", "class_2", "probability_2"]
    assert [row[0].lstrip("'") for row in found] == ODD
    for row in found:
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row)
        assert row[1:] == ["'=SUM(A1)", "0.75", 'a "b"', "0.25"]


def test_numbers_below_zero_stay_numbers() -> None:
    assert rows("csv", ("a", {"x": -1.5}), ("b", {"x": 2})) == "image,x\na,-1.5\nb,2\n"


def test_a_csv_refuses_an_answer_that_has_no_place_in_it() -> None:
    row = row_formats.row_of("csv", ROW_FORMAT)
    row("a", {"x": 1})
    with pytest.raises(UsageError, match="--format csv: b has y, and answers before had not; give jsonl"):
        row("b", {"x": 1, "y": 2})


def test_names_that_are_no_utf8_are_told_exactly() -> None:
    raw = b"caf\xe9\xff.png"
    for format in (each for each in row_formats.FORMATS if each != "coco"):  # which is for boxes
        text = rows(format, (os.fsdecode(raw), CLASSES)).encode().decode()
        assert ("caf\\xe9\\xff.png" in text) == (format != "jsonl")
    found = json.loads(rows("jsonl", (os.fsdecode(raw), CLASSES)))
    assert found["image"] == "caf\\xe9\\xff.png" and base64.b64decode(found["image_base64"]) == raw
    assert set(json.loads(rows("jsonl", ("ü.png", CLASSES)))) == {"image", "classes"}


def test_lines_and_tables_keep_a_name_in_its_line() -> None:
    for format, count in (("lines", 1), ("table", 2), ("jsonl", 1)):
        assert rows(format, ("two\nlines\x1b[31m.png", CLASSES)).count("\n") == count
        assert "\x1b" not in rows(format, ("\x1b[31m.png", CLASSES))


def test_columns_of_a_table_stand_below_each_other() -> None:
    other = {"classes": [{"class": "b", "probability": 0.5}, {"class": "c", "probability": 0.5}]}
    assert rows("table", ("long name.png", CLASSES), ("b.png", other)).splitlines() == [
        "class     prob.  2.        prob.  image",
        '=SUM(A1)  0.750  a "b"     0.250  long name.png',
        "b         0.500  c         0.500  b.png",
    ]


def test_times_in_seconds_are_told_apart_in_a_table() -> None:
    times = [
        ("a.csv:2", {"t": 1700000001.25}),
        ("a.csv:3", {"t": 1700000004.0}),
        ("a.csv:4", {"t": 0.123456}),
    ]
    lines = rows("table", *times, row_format=RowFormat("input", str)).splitlines()
    assert [line.split()[0] for line in lines] == ["t", "1700000001", "1700000004", "0.12346"]


def test_a_table_of_too_many_columns_is_told_in_words() -> None:
    shown = {"present": ["b"], "probabilities": {str(number): 0.5 for number in range(20)}}
    row_format = RowFormat("image", lambda shown: f"{shown['present'][0]} and more")
    assert rows("table", ("x.png", shown), row_format=row_format).splitlines()[1] == "b and more  x.png"


def test_labels_numbers_and_features_are_columns() -> None:
    shown = {"present": ["a", "b"], "probabilities": {"a": 0.9, "b": 0.8}, "features": np.array([1, 2.5])}
    assert row_formats.cells(shown) == {
        "present": "a, b",
        "probability of a": 0.9,
        "probability of b": 0.8,
        "feature_0": 1.0,
        "feature_1": 2.5,
    }
    words = {"words": [{"word": "x", "class": "y"}]}
    assert json.loads(row_formats.cells(words)["words"]) == words["words"]


@pytest.mark.parametrize(
    ("asked", "out", "of_features", "expected"),
    [
        (None, None, False, "lines"),  # stdout is no terminal here
        (None, "a.csv", False, "csv"),
        ("csv", "a.txt", False, "csv"),
        (None, "a.txt", False, "lines"),
        (None, "a.JSONL", False, "jsonl"),
        (None, None, True, "jsonl"),
        (None, "a.npz", True, "npz"),
    ],
)
def test_the_format_follows_from_flags(asked: Any, out: Any, of_features: bool, expected: str) -> None:
    assert output_files.format_of(asked, Path(out) if out else None, of_features) == expected


@pytest.mark.parametrize(
    ("asked", "out", "of_features", "words"),
    [
        ("npz", None, True, "--format npz: is no text; give --out FILE"),
        (None, "a.npy", False, "--out a.npy: holds features; give --embed"),
        ("table", None, True, "--embed: features are no table"),
        ("csv", "a.npz", True, "--out a.npz: is npz by its name, and --format says csv"),
    ],
)
def test_formats_that_do_not_fit_are_refused(asked: Any, out: Any, of_features: bool, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        output_files.format_of(asked, Path(out) if out else None, of_features)
    assert words in str(refused.value)


@pytest.mark.parametrize("suffix", ["npz", "npy"])
def test_features_become_numpys_files(suffix: str, tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    out = tmp_path / f"f.{suffix}"
    with output_files.opened(out, suffix, None) as write:
        for number, row in enumerate(features):
            write(f"{number}.png", {"features": row})
    found = np.load(out)
    if suffix == "npz":
        assert found["names"].tolist() == [f"{number}.png" for number in range(5)]
    np.testing.assert_array_equal(found["features"] if suffix == "npz" else found, features)
    assert os.listdir(tmp_path) == [out.name]


def test_a_file_of_answers_is_whole_or_not_there(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"
    row = row_formats.row_of("csv", ROW_FORMAT)
    with pytest.raises(KeyError), output_files.opened(out, "csv", row) as write:
        write("a.png", CLASSES)
        raise KeyError
    assert os.listdir(tmp_path) == []
    out.write_text("before")
    with pytest.raises(KeyError), output_files.opened(out, "csv", row) as write:
        raise KeyError
    assert out.read_text() == "before"
    with output_files.opened(out, "csv", row) as write:
        write("b.png", CLASSES)
        assert out.read_text() == "before"
    assert out.read_text().startswith("b.png,") and os.listdir(tmp_path) == ["a.csv"]


@pytest.mark.parametrize(
    ("name", "words"), [(".", "is a folder"), ("none/a.csv", "cannot be written (No such file")]
)
def test_a_place_that_takes_no_file_is_named(name: str, words: str, tmp_path: Path) -> None:
    row = row_formats.row_of("csv", ROW_FORMAT)
    with pytest.raises(UsageError) as refused, output_files.opened(tmp_path / name, "csv", row):
        pytest.fail("nothing may be computed before")
    assert words in str(refused.value) and str(tmp_path / name) in str(refused.value)


def test_names_with_commas_stay_apart() -> None:
    names = ["red, big", "round", 'a "b"', "", " c"]
    cell = row_formats.cells({"present": names})["present"]
    assert cell == '"red, big", round, "a ""b""", "", " c"'
    assert next(csv.reader([cell], skipinitialspace=True)) == names
    shown = several_labels.present(["red, big", "round"], np.array([0.75, 0.625]))
    assert several_labels.labels_in_words(shown) == '"red, big" 0.750, round 0.625'
