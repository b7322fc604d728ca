"""What --class-weights says, and what auto makes of a training set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mxtrain.core.errors import DataError, Stop, UsageError
from mxtrain.data.labels import class_weights
from mxtrain.data.records.record_file import RecordFile, open_records
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.data.user.user_datasets import UserBatches

NAMES = ["cat", "dog", "emu"]


def write(path: Path, given: list) -> RecordFile:
    with RecordWriter(path) as writer:
        for key, label in enumerate(given):
            writer.write(key, label, b"a picture")
    return open_records(path)


def test_each_class_of_the_training_set_weighs_the_same_in_all(tmp_path: Path) -> None:
    train = write(tmp_path / "a.rec", [0.0] * 6 + [1.0] * 2)
    found = class_weights.of_classes("auto", train, NAMES)
    assert found == [8 / (2 * 6), 8 / (2 * 2), 1.0]  # of a class without samples nothing is asked
    assert sum(found[int(label)] for label in train.labels()) == pytest.approx(8)


def test_the_yes_of_a_label_weighs_as_much_as_its_no(tmp_path: Path) -> None:
    rows = np.array([[1, 1, 0], [0, 1, 0], [0, 1, 0], [-1, 1, 0]], np.float32)
    train = write(tmp_path / "a.rec", list(rows))
    assert class_weights.of_labels("auto", train, NAMES) == [2.0, 1.0, 1.0]


def test_given_weights_are_taken(tmp_path: Path) -> None:
    train = write(tmp_path / "a.rec", [0.0, 1.0])
    (tmp_path / "w.tsv").write_text("emu\t2.5\r\ncat\t0\n")
    for of in (class_weights.of_classes, class_weights.of_labels):
        assert of("1, 0,2.5", train, NAMES) == [1.0, 0.0, 2.5]
        assert of(str(tmp_path / "w.tsv"), train, NAMES) == [0.0, 1.0, 2.5]
        assert of("none", train, NAMES) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2", "--class-weights 1,2: 2 numbers for 3 classes; give one for each"),
        ("1,2,-1", "holds -1; give numbers from 0"),
        ("1,2,nan", "holds nan; give numbers from 0"),
        ("1,2,inf", "holds inf; give numbers from 0"),
        ("0,0,0", "no class counts"),
        ("atuo", "--class-weights atuo: no such file; give auto, none"),
    ],
)
def test_wrong_weights_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        class_weights.of_classes(text, write(tmp_path / "a.rec", [0.0, 1.0]), NAMES)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"ca\t2\n", r"w\.tsv: line 1: no class is called 'ca'; did you mean 'cat'"),
        (b"cat\t2\ncat\t3\n", r"line 2: names 'cat' again"),
        (b"cat\ttwo\n", r"line 1: has to be a class, a tab and a number"),
        (b"cat\tinf\n", r"line 1: has to be a class, a tab and a number"),
        (b"\xff\t1\n", r"cannot be read"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "w.tsv").write_bytes(content)
    with pytest.raises(Stop, match=message):
        class_weights.of_classes(str(tmp_path / "w.tsv"), write(tmp_path / "a.rec", [0.0, 1.0]), NAMES)


def test_auto_needs_labels_that_are_known() -> None:
    with pytest.raises(
        UsageError, match="--class-weights auto: the labels of --train mine:data are not known"
    ):
        class_weights.of_labels("auto", UserBatches("mine:data", [], 4), NAMES)


def test_the_error_of_a_file_names_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=str(tmp_path)):
        (tmp_path / "w.tsv").write_text("cow\t1\n")
        class_weights.of_classes(str(tmp_path / "w.tsv"), write(tmp_path / "a.rec", [0.0, 1.0]), NAMES)
