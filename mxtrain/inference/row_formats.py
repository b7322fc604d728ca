"""Answers as text, a row for each: lines, a table for a terminal, JSON lines, CSV.

Owns what stands in a row, and names of files that are no text. Where rows go to is `output_files.py`'s.
"""

from __future__ import annotations

import base64
import csv
import io
import os
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np

from mxtrain.core import plain_text
from mxtrain.core.errors import UsageError
from mxtrain.inference import box_outputs, mask_outputs
from mxtrain.report.sinks import json_lines

# From the name of an input and the answer to it to a row of text, which ends its line.
Row = Callable[[str, Mapping[str, Any]], str]
Words = Callable[[Mapping[str, Any]], str]
FORMATS = ("lines", "table", "jsonl", "csv", "coco")
AROUND = {"coco": ("[\n", "\n]\n")}  # before and behind all rows of a format
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with which spreadsheets begin what they compute
WIDEST = 28
SEPARATOR = ",\n"
_MOST_COLUMNS = 12  # of a table


class RowFormat(NamedTuple):
    """The common parts of rows: what inputs are called, `image` or `input`, and an answer in words."""

    noun: str
    in_words: Words
    class_names: Sequence[str] = ()

    @property
    def class_width(self) -> int:
        """The width of the longest name of a class."""
        return min(max(map(len, self.class_names), default=0), WIDEST)


def row_of(name: str, row_format: RowFormat) -> Row:
    """Return the function of a format; a header is part of its first row."""
    return {"lines": _lines, "table": _table, "jsonl": _jsonl, "csv": _csv, "coco": _coco}[name](row_format)


def shown_name(name: str) -> str:
    """Return a name as text that UTF-8 can write: bytes that are no UTF-8 as in `\\xff`."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def in_line(name: str) -> str:
    """Return a name as one line of text."""
    return plain_text.printable(shown_name(name))


def _lines(row_format: RowFormat) -> Row:
    return lambda name, shown: f"{in_line(name)}: {plain_text.printable(row_format.in_words(shown))}\n"


def _jsonl(row_format: RowFormat) -> Row:
    def row(name: str, shown: Mapping[str, Any]) -> str:
        named: dict[str, Any] = {row_format.noun: shown_name(name)}
        if named[row_format.noun] != name:
            named[f"{row_format.noun}_base64"] = base64.b64encode(os.fsencode(name)).decode()
        return json_lines.text({**named, **_in_text(shown)}, _plain) + "\n"

    return row


def _csv(row_format: RowFormat) -> Row:
    columns: list[str] = []

    def row(name: str, shown: Mapping[str, Any]) -> str:
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        for own in _csv_cells(shown):
            values = {row_format.noun: shown_name(name), **own}
            if not columns:
                columns.extend(values)
                writer.writerow(map(_harmless, columns))
            other = next((column for column in values if column not in columns), None)
            if other is not None:
                raise UsageError(
                    f"--format csv: {in_line(name)} has {other}, and answers before had not; give jsonl"
                )
            writer.writerow(_harmless(values.get(column, "")) for column in columns)
        return lines.getvalue()

    return row


def _csv_cells(shown: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the cells of the rows that an answer takes: one of each detection, or class in a mask, else one."""
    if "detections" in shown:
        return box_outputs.csv_rows(shown)
    return shown["areas"] if "areas" in shown else [cells(shown)]


def _in_text(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return what there is of an answer in words and numbers: a mask is in files of its own."""
    return {name: value for name, value in shown.items() if name != "mask"}


def _coco(row_format: RowFormat) -> Row:
    separator = ""

    def row(name: str, shown: Mapping[str, Any]) -> str:
        nonlocal separator
        outputs = mask_outputs if "mask" in shown else box_outputs
        rows = outputs.coco_rows(shown_name(name), shown, row_format.class_names)
        text = "".join(
            f"{separator if not number else SEPARATOR}{json_lines.text(each, _plain)}"
            for number, each in enumerate(rows)
        )
        separator = SEPARATOR if rows else separator
        return text

    return row


def _table(row_format: RowFormat) -> Row:
    """Return the rows of columns with the name at their end, which so needs no width."""
    widths: dict[str, int] = {}

    def row(name: str, shown: Mapping[str, Any]) -> str:
        texts = {column: _short(column, value) for column, value in cells(_in_text(shown)).items()}
        if len(texts) > _MOST_COLUMNS or any(len(text) > WIDEST for text in texts.values()):
            texts = {"answer": plain_text.printable(row_format.in_words(shown))}
        is_first = not widths
        for column, text in texts.items():
            least = row_format.class_width if column.startswith("class_") else len(_title(column))
            widths[column] = max(widths.get(column, least), min(len(text), WIDEST))
        lines = [{column: _title(column) for column in texts}, texts] if is_first else [texts]
        ends = [row_format.noun, in_line(name)] if is_first else [in_line(name)]
        return "".join(
            "  ".join([*(text.ljust(widths[column]) for column, text in line.items()), end]) + "\n"
            for line, end in zip(lines, ends)
        )

    return row


def cells(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer as values by the names of columns: the likeliest classes side by side, and so features."""
    row_cells: dict[str, Any] = {}
    for name, value in shown.items():
        if name == "classes":
            for number, each in enumerate(value, 1):
                row_cells[f"class_{number}"] = each["class"]
                row_cells[f"probability_{number}"] = each["probability"]
        elif name == "probabilities":
            row_cells.update({f"probability of {each}": share for each, share in value.items()})
        elif name == "features":
            row_cells.update({f"feature_{number}": each for number, each in enumerate(value.tolist())})
        elif name == "present":
            row_cells[name] = plain_text.listed(value)
        else:
            row_cells[name] = (
                value if isinstance(value, (str, int, float)) else json_lines.text(value, _plain)
            )
    return row_cells


def _harmless(value: Any) -> Any:
    """Return text that a spreadsheet would take for a formula with an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _title(column: str) -> str:
    """Return the short name of a column, for people."""
    name, _, number = column.partition("_")
    if name == "class" and number.isdecimal():
        return "class" if number == "1" else f"{number}."
    return "prob." if name == "probability" and number.isdecimal() else column


def _short(column: str, value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if column.startswith("probability") else plain_text.number(value, 5)
    return plain_text.printable(str(value))


def _plain(value: Any) -> Any:
    """Return numbers and arrays of NumPy's as JSON can hold them."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else str(value)
