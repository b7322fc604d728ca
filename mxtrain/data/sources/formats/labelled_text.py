"""The sources of text with labels: a class for each document, or one for each word.

labelled_text    a folder of .txt files per class; or .jsonl whose lines are objects with `text` and `label`
tagged_text      .jsonl whose lines are objects with `tokens` (words) and `labels`, as many; or columns, as in CoNLL: in
                 each line a word and behind a tab, or in the last of several columns, its label; empty lines between
                 sentences

A line that makes no sense is an item all the same, a bad one. Labels of words are read twice: once for their names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable, List, Tuple

from mxtrain.core.errors import DataError
from mxtrain.data.sources.formats.folder import read_folder
from mxtrain.data.sources.formats.text import lines_of, paragraphs_of, text_of
from mxtrain.data.sources.item import BadItem, Item, Source, read_at
from mxtrain.data.sources.labels import check_class_name, resolve_labels

JSON_SUFFIXES = (".jsonl", ".ndjson")
NO_SENTENCE = "-DOCSTART-"  # a line of CoNLL 2003 between documents
Tagged = Tuple[List[str], List[str]]  # words, and a label for each


def read_labelled_text(source: Path) -> Source:
    """Read texts of one class each: a folder for each class, or a file with a text and its class a line."""
    if source.is_dir():
        return read_folder(source, (".txt",), "text")._replace(holds_text=True)
    items = _items(source, lines_of)
    good, raw_labels = [], []
    for number, item in enumerate(items):
        try:
            raw_labels.append((_label_of(read_at(source, *item.location)),))
            good.append(number)
        except BadItem:  # `read` says so again
            pass
    labels, names = resolve_labels(raw_labels, source, multi_label=False)
    for number, label in zip(good, labels):
        items[number] = items[number]._replace(label=label)

    def read(item: Item) -> bytes:
        line = read_at(source, *item.location)
        _label_of(line)
        return text_of(line)

    return Source(items, read, names, files=[source], holds_text=True)


def read_tagged_text(source: Path) -> Source:
    """Read texts whose words have a class each, from .jsonl or from columns."""
    if source.is_dir():
        raise DataError(f"{source} is a folder: give a .jsonl file, or one of words and labels in columns")
    is_json = source.suffix.lower() in JSON_SUFFIXES
    parse = _tagged_line if is_json else _tagged_columns
    items = _items(source, lines_of if is_json else paragraphs_of)
    sentences = []
    for item in items:
        data = read_at(source, *item.location)
        if is_json or not data.startswith(NO_SENTENCE.encode()):
            sentences.append(item)
    names = sorted({label for item in sentences for label in _labels_in(parse, source, item)})
    for name in names:
        check_class_name(name, str(source))
    numbers = {name: number for number, name in enumerate(names)}

    def read(item: Item) -> bytes:
        words, labels = parse(read_at(source, *item.location))
        return json.dumps([words, [numbers[label] for label in labels]]).encode()

    return Source(sentences, read, names, files=[source], holds_text=True, is_tagged=True)


def _items(source: Path, places_of: Callable[[Path], Any]) -> list[Item]:
    items = [Item(f"{source.name}:{line}", 0, place) for line, *place in places_of(source)]
    if not items:
        raise DataError(f"{source} holds no text")
    return items


def _label_of(line: bytes) -> str | float:
    label = _object_of(line).get("label")
    if isinstance(label, bool) or not isinstance(label, (str, int, float)):
        raise BadItem("its line has no `label`, a word or a number")
    return label


def _labels_in(parse: Callable[[bytes], Tagged], source: Path, item: Item) -> list[str]:
    try:
        return parse(read_at(source, *item.location))[1]
    except BadItem:  # `read` says so again
        return []


def _tagged_line(line: bytes) -> Tagged:
    found = _object_of(line)
    words, labels = found.get("tokens"), found.get("labels")
    if not isinstance(words, list) or not isinstance(labels, list) or len(words) != len(labels):
        raise BadItem("its line has no `tokens` and `labels`, as many of the one as of the other")
    if not all(isinstance(word, str) for word in words):
        raise BadItem("its `tokens` are not all text")
    if not all(isinstance(label, (str, int)) and not isinstance(label, bool) for label in labels):
        raise BadItem("its `labels` are not all words or whole numbers")
    return words, [str(label) for label in labels]


def _tagged_columns(paragraph: bytes) -> Tagged:
    try:
        lines = paragraph.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise BadItem(f"it is not UTF-8 text ({error.reason} at byte {error.start})") from None
    rows = [line.split("\t") if "\t" in line else line.split() for line in lines]
    for line, row in zip(lines, rows):
        if len(row) < 2 or not row[0].strip() or not row[-1].strip():
            raise BadItem(f"its line {line[:40]!r} is not a word and its label, with a tab between")
    return [row[0].strip() for row in rows], [row[-1].strip() for row in rows]


def _object_of(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise BadItem(f"its line is no JSON ({error})") from None
    if not isinstance(found, dict):
        raise BadItem("its line is no object")
    return found
