"""Texts in files that are asked about: a text a line of .jsonl, a text a row of a table, or a text in all of a file.

Owns where a text lies and how a file of several is named by lines. Tokens are `texts.py`'s.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mxtrain.core import regular_files
from mxtrain.core.errors import DataError
from mxtrain.data.arrays import table_files

JSON_SUFFIXES = (".jsonl", ".ndjson")
TABLE_SUFFIXES = (".csv", ".tsv")
COLUMN = "text"


def texts_in(path: Path) -> list[tuple[str, Any]]:
    """Return the texts of a file of several by names with their lines, or else the file itself, which is one text.

    DataError names the first line or row that has no text.
    """
    suffix = path.suffix.lower()
    if suffix in JSON_SUFFIXES:
        found = _of_json_lines(path)
    elif suffix in TABLE_SUFFIXES:
        found = _of_table(path)
    else:
        return [(str(path), path)]
    if not found:
        raise DataError(f"{path}: holds no text")
    return found


def _of_json_lines(path: Path) -> list[tuple[str, str]]:
    try:
        lines = regular_files.read(path).split(b"\n")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    return [
        (f"{path}:{number}", _text_of(f"{path}: line {number}", line))
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]


def _text_of(where: str, line: bytes) -> str:
    """Return what a line says: its `text`, or the words of its `tokens` with spaces between."""
    try:
        found = json.loads(line)
    except ValueError as error:
        raise DataError(f"{where}: is no JSON ({error}); mend it") from None
    if not isinstance(found, dict):
        raise DataError(f"{where}: is no object; give {{{json.dumps(COLUMN)}: ...}}")
    words = found.get("tokens")
    if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
        return " ".join(words)
    if not isinstance(found.get(COLUMN), str):
        raise DataError(f"{where}: has no `{COLUMN}`; give it one")
    return str(found[COLUMN])


def _of_table(path: Path) -> list[tuple[str, str]]:
    try:
        names, rows = table_files.cells(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    if COLUMN not in names:
        raise DataError(f"{path}: has no column called {COLUMN} (it has {', '.join(names[:20])})")
    place = names.index(COLUMN)
    return [(f"{path}:{number}", row[place]) for number, row in enumerate(rows, 2)]
