"""Texts as data sets where they lie: the samples, labels and order of their pack, and what is no text is named."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.fingerprint import fingerprint_of
from mxtrain.data.packing.options import Options
from mxtrain.data.packing.pack import pack
from mxtrain.data.records.record_sets import open_set
from mxtrain.data.sources.samples import Labels, open_samples
from mxtrain.data.text.tokens import format_of
from mxtrain.data.text.windows import Windows

HOSTILE = ["plain", "naïve ‘quotes’", "tab\there", "emoji 🙂", "a" * 300, "<|endoftext|>"]


def paragraphs(root: Path) -> Path:
    (root / "a.txt").write_text("\n\n\n".join(HOSTILE) + "\n", encoding="utf-8")
    return root / "a.txt"


def text_folder(root: Path) -> Path:
    for number, text in enumerate(HOSTILE):
        path = root / "texts" / "ab"[number % 2] / f"{number}\n\udcff.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root / "texts"


def json_lines(root: Path) -> Path:
    lines = [json.dumps({"text": text, "label": "yn"[len(text) % 2]}) for text in HOSTILE]
    (root / "a.jsonl").write_text("\n".join([lines[0], "", *lines[1:]]))
    return root / "a.jsonl"


def tagged_lines(root: Path) -> Path:
    lines = [json.dumps({"tokens": [text.replace(" ", "_"), "B"], "labels": ["O", "X"]}) for text in HOSTILE]
    (root / "a.jsonl").write_text("\n".join(lines))
    return root / "a.jsonl"


def columns(root: Path) -> Path:
    text = "-DOCSTART- O\n\n" + "".join(f"{each.split()[0]}\tO\nB\tB-X\n\n" for each in HOSTILE)
    (root / "a.conll").write_text(text, encoding="utf-8")
    return root / "a.conll"


SOURCES: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "paragraphs": ("text", paragraphs),
    "folder": ("text", text_folder),
    "json lines": ("text", json_lines),
    "labelled folder": ("labelled_text", text_folder),
    "labelled json lines": ("labelled_text", json_lines),
    "tagged json lines": ("tagged_text", tagged_lines),
    "columns": ("tagged_text", columns),
}


@pytest.mark.parametrize("name", SOURCES)
def test_samples_labels_and_order_are_those_of_its_pack(name: str, tmp_path: Path) -> None:
    text_type, make = SOURCES[name]
    path = make(tmp_path)
    records: Any = open_samples(str(path), Labels(text_type=text_type))
    pack(path, tmp_path / "packed.rec", Options(source_type=text_type))
    packed: Any = open_set(str(tmp_path / "packed.rec"))
    assert len(records) == len(packed) == len(HOSTILE) and records.class_names == packed.class_names
    again = pickle.loads(pickle.dumps(records))
    for position in range(len(packed)):
        for own in (records.read(position), again.read(position)):
            other = packed.read(position)
            assert bytes(own.payload) == bytes(other.payload)
            assert np.array_equal(own.label, other.label) and np.shape(own.label) == np.shape(other.label)
    assert all(map(np.array_equal, records.label_rows(), packed.label_rows()))
    assert np.array_equal(records.payload_sizes(), packed.payload_sizes())
    assert format_of(records) == format_of(packed)
    assert fingerprint_of(records)["labels"] == fingerprint_of(packed)["labels"]
    windows, others = (Windows(each, format_of(each), 7) for each in (records, packed))
    assert len(windows) == len(others)
    for position in range(len(windows)):
        assert np.array_equal(windows.read(position).payload, others.read(position).payload)


@pytest.mark.parametrize(
    ("text_type", "name", "content", "words"),
    [
        ("text", "a.jsonl", b'{"text": "x"}\nno json\n', "a.jsonl:2: its line is no JSON"),
        ("text", "a.txt", b"good\n\n\xff\xfe\n", "a.txt:3: it is not UTF-8 text"),
        (
            "labelled_text",
            "a.jsonl",
            b'{"text": "x", "label": "a"}\n{"text": "y"}\n',
            "a.jsonl:2: its line has no",
        ),
        ("tagged_text", "a.conll", b"word\tO\n\nalone\n", "a.conll:3: its line 'alone' is not a word"),
    ],
)
def test_what_is_damaged_is_named_where_it_is_read(
    text_type: str, name: str, content: bytes, words: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    records: Any = open_samples(str(tmp_path / name), Labels(text_type=text_type))
    assert len(records) == 2 and len(records.label_rows()) == 2
    with pytest.raises(DataError) as stopped:
        records.payload_sizes()
    assert words in str(stopped.value)


def test_what_holds_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.lst").write_text("0\t1\ta.jpg\n")
    with pytest.raises(UsageError, match="holds no text to learn from"):
        open_samples(str(tmp_path / "a.lst"), Labels(text_type="text"))
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(DataError, match="holds no text"):
        open_samples(str(tmp_path / "empty.txt"), Labels(text_type="text"))
