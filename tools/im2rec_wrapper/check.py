"""Everything that can be said about .rec files, read top to bottom in `check`.

How it is printed is `check_report.py`'s. Memory is bounded by some records in flight, and about 300 bytes for
each record of all files together.
"""

from __future__ import annotations

from array import array
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple, Sequence

import numpy as np

from mxtrain.data.records import RecordFile
from mxtrain.errors import DataError, UsageError
from tools.im2rec_wrapper import classes, pictures, structure
from tools.im2rec_wrapper.copies import Copies
from tools.im2rec_wrapper.findings import Finding
from tools.im2rec_wrapper.pictures import Look
from tools.im2rec_wrapper.progress import shown


class FileReport(NamedTuple):
    path: Path
    num_bytes: int
    num_records: int
    has_checksums: bool
    classes: list[classes.Class]  # empty where labels are no class numbers
    pictures: dict[str, Any]


class Report(NamedTuple):
    files: list[FileReport]
    findings: list[Finding]


def check(paths: Sequence[Path], decode: bool = True) -> Report:
    """Look at every byte of the files, and unless `decode` is False at every pixel."""
    resolved = [path.resolve() for path in paths]
    for place, path in enumerate(paths):
        if resolved[place] in resolved[:place]:
            raise UsageError(f"{path} is given twice: every picture in it would be a copy")
    copies, files, findings = Copies(), [], []
    for path in paths:
        try:
            file = RecordFile(path)
        except DataError as error:
            findings.append(Finding("unreadable", path, str(error)))
            continue
        file_report, found = _check_file(file, copies, decode)
        files.append(file_report)
        findings += found
    return Report(files, findings + copies.findings())


def _check_file(file: RecordFile, copies: Copies, decode: bool) -> tuple[FileReport, list[Finding]]:
    table, findings = structure.read_table(file)
    class_counts, found = classes.count_classes(table)
    findings += found
    statistics = _Statistics()
    copies.start(table)
    for number, look in enumerate(shown(pictures.look_at_all(file, table, decode), len(table))):
        if isinstance(look, Finding):
            findings.append(look)
        else:
            statistics.add(look)
            copies.add(number, look)
    report = FileReport(
        file.path, file.num_bytes, len(table), table.has_checksums, class_counts, statistics.summary()
    )
    return report, findings


class _Statistics:
    def __init__(self) -> None:
        self._formats: Counter[str] = Counter()
        self._num_progressive = self._num_with_restarts = 0
        self._values = {"height": array("q"), "width": array("q"), "num_bytes": array("q")}

    def add(self, look: Look) -> None:
        self._formats[look.format] += 1
        self._num_progressive += look.is_progressive
        self._num_with_restarts += look.has_restarts
        for name, values in self._values.items():
            value = getattr(look, name)
            if value is not None:
                values.append(value)

    def summary(self) -> dict[str, Any]:
        """Of whole pictures only. Shares are of the JPEGs; sizes are there if something was decoded."""
        num_jpegs = max(self._formats["JPEG"], 1)
        spreads = {name: _spread(values) for name, values in self._values.items() if values}
        return {
            "formats": dict(self._formats.most_common()),
            "progressive_share": self._num_progressive / num_jpegs,
            "restart_share": self._num_with_restarts / num_jpegs,
            **spreads,
        }


def _spread(values: array[int]) -> dict[str, float]:
    numbers = np.array(values)
    return {"min": int(numbers.min()), "median": float(np.median(numbers)), "max": int(numbers.max())}
