"""metrics.csv: the steps and evaluations of a run as a table, for spreadsheets and data frames.

Owns the file. It has a row for each `train` and `eval` record and a column for each of their numbers.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
from pathlib import Path
from typing import Any, Iterable

from mxtrain.report.sinks import json_lines
from mxtrain.report.sinks.record import PLACE, Record
from mxtrain.report.sinks.sink import Logged

RECORD_KINDS = ("train", "eval")


def open_sink(run: Logged) -> Table:
    """Begin the table of a run, with the rows of its earlier attempts."""
    return Table(run.out / "metrics.csv", run.out / "metrics.jsonl")


class Table:
    """Writes metrics.csv. It begins as what metrics.jsonl, cut back to the checkpoint, holds at that time."""

    def __init__(self, path: Path, metrics: Path):
        self._path = path
        rows = [_row(record) for record in json_lines.records(metrics) if record.get("kind") in RECORD_KINDS]
        self._columns = list(dict.fromkeys([*PLACE, *(name for row in rows for name in row)]))
        self._replace(_line(self._columns), (self._line_of(row) for row in rows))

    def write(self, record: Record) -> None:
        if record["kind"] not in RECORD_KINDS:
            return
        row = _row(record)
        new = [name for name in row if name not in self._columns]
        if new:
            self._widen(new)
        self._file.write(self._line_of(row))

    def close(self) -> None:
        with contextlib.suppress(OSError):  # as in JsonLines
            self._file.close()

    def _line_of(self, row: dict[str, Any]) -> str:
        return _line([row.get(name, "") for name in self._columns])

    def _widen(self, new: list[str]) -> None:
        """Write the file anew with more columns on the right, which are empty so far."""
        self._file.close()
        self._columns += new
        with self._path.open(encoding="utf-8", newline="") as file:
            _, *rows = file.read().rstrip("\n").split("\n")
        self._replace(_line(self._columns), (row + "," * len(new) + "\n" for row in rows))

    def _replace(self, header: str, rows: Iterable[str]) -> None:
        aside = self._path.with_name(self._path.name + ".writing")
        with aside.open("w", encoding="utf-8", newline="") as file:
            file.write(header)
            file.writelines(rows)
        aside.replace(self._path)
        self._file = self._path.open("a", buffering=1, encoding="utf-8", newline="")


def _row(record: Record) -> dict[str, Any]:
    """Return the cells of a record: its place and its numbers; one that is not finite is an empty cell."""
    cells: dict[str, Any] = {"kind": record["kind"]}
    for name, value in record.items():
        if value is None or isinstance(value, (int, float)):
            cells[name] = value if value is not None and math.isfinite(value) else ""
    return cells


def _line(cells: list[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
