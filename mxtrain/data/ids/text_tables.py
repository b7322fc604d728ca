"""Tables in files of text, CSV and TSV, read a piece at a time, as their cells lie in the file.

Owns lines and separators. A table with quotes goes through Python's csv, as those of `arrays/table_files.py` do. What a
cell holds is `text_columns.py`'s.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from pathlib import Path
from typing import Dict, Iterator, Sequence

import numpy as np

from mxtrain.core import plain_text, regular_files
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays import table_files
from mxtrain.data.ids import text_columns
from mxtrain.data.ids.text_columns import TextColumn

SUFFIXES = (".csv", ".tsv")
SEPARATORS = "\t,;"
CRITEO = "criteo"  # as a name of columns: those of its files of clicks, which have no line of names
_CRITEO_NAMES = ("label", *(f"I{k}" for k in range(1, 14)), *(f"C{k}" for k in range(1, 27)))
AT_ONCE = 4 << 20  # bytes of a piece, which a CPU's cache nearly holds; a line has to be shorter
ROWS_AT_ONCE = 1 << 15  # of a table with quotes
_NEWLINE, _RETURN, _QUOTE = 10, 13, b'"'
_MARK = b"\xef\xbb\xbf"  # before UTF-8, by some programs

TextColumns = Dict[str, TextColumn]


@dataclasses.dataclass(frozen=True)
class TextTable:
    """A table in a file of text."""

    path: Path
    names: tuple[str, ...]  # of its columns
    separator: str
    num_header_lines: int  # of names: 1, or 0 where a flag names the columns
    has_quotes: bool

    def pieces(self) -> Iterator[TextColumns]:
        """Yield the columns of some rows after the other; DataError names a row of another number of cells."""
        if self.has_quotes:
            yield from _of_quoted(self)
            return
        num_rows = 0
        for block in _blocks(self.path, self.num_header_lines):
            columns = _columns(self, block, num_rows)
            num_rows += len(columns[0])
            yield dict(zip(self.names, columns))

    def row_number(self, position: int) -> int:
        """Return the number of the line in which a row stands."""
        return position + 1 + self.num_header_lines


def open_table(path: Path, column_names: str = "") -> TextTable:
    """Open a table.

    Args:
        path: a .csv or .tsv.
        column_names: the names of its columns, joined by commas, or `criteo`, where it has no line of names.

    Returns:
        the table, of which no more is known to be right than its first line.
    """
    try:
        regular_files.require(path)
        with path.open("rb") as file:
            line = file.readline(AT_ONCE).rstrip(b"\r\n")
            has_quotes = _QUOTE in line or any(
                _QUOTE in block for block in iter(lambda: file.read(AT_ONCE), b"")
            )
        first = line.decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text: save it as UTF-8") from None
    if not first:
        raise DataError(f"{path} is empty, or its first line is")
    separator = max(SEPARATORS, key=first.count)
    values = [cell.strip() for cell in table_files.csv_rows(path, first, separator)[0]]
    names = _named(path, column_names, len(values)) if column_names else _of_header(path, values)
    return TextTable(path, names, separator, 0 if column_names else 1, has_quotes)


def _named(path: Path, text: str, count: int) -> tuple[str, ...]:
    names = _CRITEO_NAMES if text == CRITEO else tuple(name.strip() for name in text.split(","))
    if len(names) != count:
        raise UsageError(
            f"--column-names {text}: {len(names)} names, and the first line of {path} has {count} cells"
        )
    if len(set(names)) < len(names) or not all(names):
        raise UsageError(f"--column-names {text}: names a column twice, or not at all; name each once")
    return names


def _of_header(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    if any(plain_text.parse_number(name) is not None for name in names):
        raise DataError(
            f"{path}: its first line has numbers, not the names of the columns; put them in front, or give "
            "--column-names"
        )
    repeated = [name for place, name in enumerate(names) if name in names[:place] or (place and not name)]
    if repeated:
        raise DataError(
            f"{path}: its first line names column {repeated[0]!r} twice, or not at all; name each once"
        )
    return tuple(names)


def _blocks(path: Path, num_header_lines: int) -> Iterator[bytes]:
    """Yield the lines of a file, many at once, each with its end; empty lines at the end of the file are none."""
    rest = b""
    with path.open("rb") as file:
        for _ in range(num_header_lines):
            file.readline()
        if not num_header_lines and file.read(len(_MARK)) != _MARK:
            file.seek(0, os.SEEK_SET)
        for block in iter(lambda: file.read(AT_ONCE), b""):
            block = rest + block
            end = len(block.rstrip(b"\r\n"))  # what follows may be the end of the file
            end = block.rfind(b"\n", 0, end) + 1
            if not end and len(block) > AT_ONCE:
                raise DataError(f"{path}: a line of more than {AT_ONCE} bytes is no row of a table")
            rest = block[end:]
            if end:
                yield block[:end]
        rest = rest.rstrip(b"\r\n")
        if rest:
            yield rest + b"\n"


def _columns(table: TextTable, block: bytes, num_before: int) -> list[TextColumn]:
    """Return the columns of whole lines; `num_before` rows are before them in the file."""
    data = np.frombuffer(block, np.uint8)
    count = len(table.names)
    ends = np.flatnonzero((data == ord(table.separator)) | (data == _NEWLINE))
    is_line_end = data[ends] == _NEWLINE
    lines = np.flatnonzero(is_line_end)
    widths = np.diff(lines, prepend=-1)
    wrong = np.flatnonzero(widths != count)
    if len(wrong):
        row = table.row_number(num_before + int(wrong[0]))
        raise DataError(
            f"{table.path}: row {row} has {widths[wrong[0]]} cells, and there are {count} columns: mend it"
        )
    starts = np.append(0, ends[:-1] + 1)
    has_return = is_line_end & (ends > starts) & (data[ends - 1] == _RETURN)
    starts, ends = starts.reshape(-1, count), (ends - has_return).reshape(-1, count)
    columns = [
        TextColumn(data, np.ascontiguousarray(starts[:, place]), np.ascontiguousarray(ends[:, place]))
        for place in range(count)
    ]
    return list(map(text_columns.stripped, columns)) if b" " in block else columns


def _of_quoted(table: TextTable) -> Iterator[TextColumns]:
    """Yield the columns of some rows after the other of a table with quotes."""
    count, num_before = len(table.names), 0
    with table.path.open(encoding="utf-8-sig", newline="\n") as file:
        rows = table_files.csv_rows_of_lines(table.path, file, table.separator)
        remaining = itertools.islice(rows, table.num_header_lines, None)
        try:
            for some in iter(lambda: list(itertools.islice(remaining, ROWS_AT_ONCE)), []):
                for position, row in enumerate(some, num_before):
                    if len(row) != count:
                        raise DataError(
                            f"{table.path}: row {table.row_number(position)} has {len(row)} cells, and there are "
                            f"{count} columns: mend it"
                        )
                num_before += len(some)
                yield {
                    name: text_columns.of_texts([row[place].strip() for row in some])
                    for place, name in enumerate(table.names)
                }
        except UnicodeDecodeError:
            raise DataError(f"{table.path} is not UTF-8 text: save it as UTF-8") from None
