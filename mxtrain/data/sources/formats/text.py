"""The source of text to tokenize, cut into documents. Text with labels is `labelled_text.py`'s.

folder       each .txt file in it is a document, however deep
.txt         documents are the paragraphs, with empty lines between them
.jsonl       each line is an object whose `text` is a document
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Iterator

from mxtrain.core import regular_files
from mxtrain.core.errors import DataError
from mxtrain.data.sources.item import BadItem, Item, Source, read_at


def read_text(source: Path) -> Source:
    """Find the documents of a folder or a file; DataError where there are none."""
    if source.is_dir():
        return _folder(source)
    is_lines = source.suffix.lower() in (".jsonl", ".ndjson")
    found = lines_of(source) if is_lines else paragraphs_of(source)
    items = [Item(f"{source.name}:{line}", 0, place) for line, *place in found]
    if not items:
        raise DataError(f"{source} holds no text")

    def read(item: Item) -> bytes:
        data = read_at(source, *item.location)
        return text_of(data) if is_lines else data

    return Source(items, read, files=[source], holds_text=True)


def _folder(root: Path) -> Source:
    paths = sorted(path for path in root.rglob("*.txt") if not path.is_dir())
    items = [Item(os.path.relpath(path, root), 0) for path in paths]
    return Source(
        items,
        lambda item: regular_files.read(root / item.name),
        path_of=lambda item: os.path.join(root, item.name),
        holds_text=True,
    )


def lines_of(path: Path) -> Iterator[tuple[int, int, int]]:
    """Yield number (from 1), offset and size of each line that is not empty."""
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, offset, len(line)
            offset += len(line)


def paragraphs_of(path: Path) -> Iterator[tuple[int, int, int]]:
    """Yield number of the first line, offset and size of each paragraph."""
    first, start, end, offset = 0, 0, 0, 0  # no first line: between two paragraphs
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                first, start = (first, start) if first else (number, offset)
                end = offset + len(line.rstrip(b"\r\n"))
            elif first:
                yield first, start, end - start
                first = 0
            offset += len(line)
    if first:
        yield first, start, end - start


def text_of(line: bytes) -> bytes:
    """Return the `text` of a line of JSON."""
    try:
        found = json.loads(line)
    except ValueError as error:
        raise BadItem(f"its line is no JSON ({error})") from None
    text = found.get("text") if isinstance(found, dict) else None
    if not isinstance(text, str):
        raise BadItem("its line has no `text`")
    return text.encode("utf-8", "surrogatepass")
