"""Text with labels, for documents and for words, becomes token records."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mxtrain.core.errors import DataError
from mxtrain.data.packing.options import Options
from mxtrain.data.packing.pack import pack
from mxtrain.data.records.record_file import classes_path, open_records
from mxtrain.data.sources.item import BadItem
from mxtrain.data.sources.opening import open_source
from mxtrain.data.text import words
from tools.im2rec_wrapper.checking.check import check


def lines(path, *objects):
    path.write_text("".join(json.dumps(each) + "\n" for each in objects))
    return path


def packed_text(source, path, kind):
    pack(source, path, Options(source_type=kind))
    return path


def by_words(text):
    """Return a token for each word and two for a long one, as a tokenizer of pieces does."""
    return [number for word in text.split() for number in range(1 + (len(word) > 4))]


def test_a_folder_of_classes(tmp_path):
    for name in ("good/a.txt", "bad/deep/b.txt", "good/picture.png"):
        (tmp_path / "s" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "s" / name).write_text(name)
    found = open_source(tmp_path / "s", "labelled_text")
    assert found.class_names == ["bad", "good"] and found.holds_text
    assert [(item.name, item.label, found.read(item)) for item in found.items] == [
        ("bad/deep/b.txt", 0, b"bad/deep/b.txt"),
        ("good/a.txt", 1, b"good/a.txt"),
    ]


def test_lines_with_a_label(tmp_path):
    source = lines(tmp_path / "a.jsonl", {"text": "to be", "label": "y"}, {"text": "or not", "label": "n"})
    path = packed_text(source, tmp_path / "out.rec", "labelled_text")
    records = open_records(path)
    found = {
        bytes(np.frombuffer(each.payload, "<u2")[:-1].astype(np.uint8)): each.label
        for each in map(records.read, (0, 1))
    }
    assert found == {b"to be": 1.0, b"or not": 0.0} and records.class_names == ["n", "y"]
    assert not check([path]).findings


def test_lines_and_columns_of_tagged_words(tmp_path):
    in_lines = lines(tmp_path / "a.jsonl", {"tokens": ["Ann", "x y"], "labels": ["B", "O"]})
    in_columns = tmp_path / "a.conll"
    in_columns.write_text("-DOCSTART- -X- O\n\nAnn\tNNP\tB\nx y\t.\tO\n\n")
    for source, kind in ((in_lines, "tagged_text"), (in_columns, None)):
        path = packed_text(source, tmp_path / "out.rec", kind)
        records = open_records(path)
        (record,) = map(records.read, range(len(records)))
        assert np.frombuffer(record.payload, "<u2").tolist() == [*b"Ann x y", 256]
        assert record.label.tolist() == [0, -1, -1, 1, -1, -1, -1, -1]
        assert classes_path(path).read_text() == "B\nO\n"
        assert not check([path]).findings


def test_check_finds_labels_that_are_no_classes(tmp_path):
    source = lines(tmp_path / "a.jsonl", {"tokens": ["a", "b"], "labels": ["B", "O"]})
    path = packed_text(source, tmp_path / "out.rec", "tagged_text")
    classes_path(path).write_text("B\n")
    (finding,) = check([path]).findings
    assert "a token's label is 1, but the class list has 1 classes" in finding.text


@pytest.mark.parametrize(
    ("kind", "line", "reason"),
    [
        ("labelled_text", "{", "no JSON"),
        ("labelled_text", "[1]", "no object"),
        ("labelled_text", '{"text": "a"}', "no `label`"),
        ("labelled_text", '{"text": "a", "label": [1]}', "no `label`"),
        ("labelled_text", '{"text": 3, "label": 1}', "no `text`"),
        ("tagged_text", '{"tokens": ["a"], "labels": []}', "as many of the one"),
        ("tagged_text", '{"tokens": [1], "labels": ["O"]}', "not all text"),
        ("tagged_text", '{"tokens": ["a"], "labels": [1.5]}', "not all words"),
    ],
)
def test_a_line_that_makes_no_sense_is_a_bad_item(tmp_path, kind, line, reason):
    good = {"text": "a", "label": "y", "tokens": ["a"], "labels": ["O"]}
    source = lines(tmp_path / "a.jsonl", good, good)
    source.write_text(source.read_text() + line + "\n")
    found = open_source(source, kind)
    assert [item.name for item in found.items] == ["a.jsonl:1", "a.jsonl:2", "a.jsonl:3"]
    found.read(found.items[1])
    with pytest.raises(BadItem, match=reason):
        found.read(found.items[2])
    with pytest.raises(DataError, match="1 bad documents"):
        packed_text(source, tmp_path / "out.rec", kind)


@pytest.mark.parametrize("text", ["alone\n", "a\t\n", b"\xff\tO\n"])
def test_columns_that_make_no_sense_are_a_bad_item(tmp_path, text):
    path = tmp_path / "a.conll"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = open_source(path)
    with pytest.raises(BadItem):
        found.read(found.items[0])


def test_the_first_token_of_a_word_has_its_label():
    found = words.tokens_of_words(["I", "understand", "it"], by_words)
    assert found.ids.tolist() == [0, 0, 1, 0] and found.starts.tolist() == [0, 1, 3]
    assert words.token_labels(found.starts, [5, 6, 7], 5).tolist() == [5, 6, -1, 7, -1]
    with pytest.raises(ValueError, match="'  ' has no token"):
        words.tokens_of_words(["a", "  "], by_words)
