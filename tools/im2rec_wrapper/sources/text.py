"""Text to tokenize, cut into documents.

folder       each .txt file in it is a document, however deep
.txt         documents are the paragraphs, with empty lines between them
.jsonl       each line is an object whose `text` is a document
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Iterator

from mxtrain.errors import DataError
from tools.im2rec_wrapper.sources.item import BadItem, Item, Source, read_at


def read_text(source: Path) -> Source:
    if source.is_dir():
        return _folder(source)
    is_lines = source.suffix.lower() in (".jsonl", ".ndjson")
    places = list(_lines(source) if is_lines else _paragraphs(source))
    if not places:
        raise DataError(f"{source} holds no text")
    items = [Item(f"{source.name}:{number}", 0, place) for number, place in enumerate(places)]

    def read(item: Item) -> bytes:
        data = read_at(source, *item.place)
        return _text_of(data) if is_lines else data

    return Source(items, read, files=[source], holds_text=True)


def _folder(root: Path) -> Source:
    paths = sorted(path for path in root.rglob("*.txt") if path.is_file())
    items = [Item(os.path.relpath(path, root), 0) for path in paths]
    return Source(
        items,
        lambda item: (root / item.name).read_bytes(),
        path_of=lambda item: os.path.join(root, item.name),
        holds_text=True,
    )


def _lines(path: Path) -> Iterator[tuple[int, int]]:
    offset = 0
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                yield offset, len(line)
            offset += len(line)


def _paragraphs(path: Path) -> Iterator[tuple[int, int]]:
    start, end, offset = None, 0, 0
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                start, end = offset if start is None else start, offset + len(line.rstrip(b"\r\n"))
            elif start is not None:
                yield start, end - start
                start = None
            offset += len(line)
    if start is not None:
        yield start, end - start


def _text_of(line: bytes) -> bytes:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise BadItem(f"its line is no JSON ({error})") from None
    text = found.get("text") if isinstance(found, dict) else None
    if not isinstance(text, str):
        raise BadItem("its line has no `text`")
    return text.encode("utf-8", "surrogatepass")
