"""Samples of text: cut to the window, with a label each or one for each token; and texts to be judged."""

from __future__ import annotations

import numpy as np
import pytest

from mxtrain.core.errors import DataError
from mxtrain.data.arrays.array_fields import Input
from mxtrain.data.arrays.array_reader import ArrayReader
from mxtrain.data.arrays.statistics import Statistics
from mxtrain.data.fields import BadSample
from mxtrain.data.interfaces import Record
from mxtrain.data.text import texts, tokenizers
from mxtrain.data.text.tokens import TokenFormat

FORMAT = TokenFormat("bytes", 257, 256, "uint16")


def record(label, *ids):
    return Record(0, label, np.array(ids, "<u2").tobytes())


def read(reader, *arguments):
    return reader(record(*arguments), np.random.default_rng(0), {})


def test_a_text_is_cut_to_the_window():
    found = read(texts.TextReader(FORMAT, 3, 2, False), 1.0, 5, 6, 7, 256)
    assert (
        found["tokens"].tolist() == [5, 6, 7]
        and found["mask"].tolist() == [1, 1, 1]
        and found["label"] == 1.0
    )


@pytest.mark.parametrize("label", [2.0, -1.0, 0.5, np.nan, np.array([0.0, 1.0])])
def test_a_label_that_is_no_class_is_refused(label):
    text = texts.TextReader(FORMAT, 3, 2, False)
    array = ArrayReader(
        (Input("data", (1,), statistics=Statistics(np.zeros(1), np.ones(1))),), (), num_classes=2
    )
    assert array(Record(0, 1.0, {"data": [5.0]}), np.random.default_rng(0), {})["label"] == 1.0
    for reader, payload in ((text, record(0, 5).payload), (array, {"data": [5.0]})):
        with pytest.raises(BadSample, match=r"2 classes, numbered from 0|one class|2 targets|not finite"):
            reader(Record(0, label, payload), np.random.default_rng(0), {})


def test_labels_are_cut_with_their_tokens():
    found = read(texts.TextReader(FORMAT, 2, 4, True), np.array([3, -1, 0], np.float32), 5, 6, 256)
    assert found["label"].tolist() == [3, -1]
    assert [field.name for field in texts.fields(2, True)] == ["tokens", "mask", "label"]
    with pytest.raises(BadSample, match="2 labels for 3 tokens"):
        read(texts.TextReader(FORMAT, 2, 4, True), np.array([3, -1], np.float32), 5, 6, 256)


def test_a_text_to_be_judged(tmp_path):
    by = tokenizers.of_bytes()
    (tmp_path / "a.txt").write_text("ab c")
    for source in ("ab c", tmp_path / "a.txt"):
        assert texts.input_of(source, by, 9, False)["tokens"].tolist() == [*b"ab c", 256]
        found = texts.input_of(source, by, 4, True)
        assert found["tokens"].tolist() == [*b"ab c"] and found["label"].tolist() == [0, -1, 0, -1]


def test_what_is_no_text_is_refused(tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"\xff")
    for source, words in (
        ("", "is empty"),
        (" ", "is empty"),
        (tmp_path / "none.txt", "none.txt: cannot be read"),
        (tmp_path / "bad.txt", "bad.txt: is not UTF-8"),
        (3, "a int is no text"),
    ):
        with pytest.raises(DataError, match=words):
            texts.input_of(source, tokenizers.of_bytes(), 9, True)
