"""The check of .rec files; `check` reads from top to bottom.

Memory holds a few records at a time, and the offset, label and fingerprint of each. Does not own how a report is
printed (`check_report.py`).
"""

from __future__ import annotations

import functools
from array import array
from collections import Counter
from pathlib import Path
from typing import Any, Collection, NamedTuple, Sequence

import numpy as np

from mxtrain.core import regular_files
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays.array_fields import parse_sidecar, sidecar_path
from mxtrain.data.records.record_file import classes_path
from mxtrain.data.records.recordio_file import RecordIOFile
from mxtrain.data.text import tokenizers
from mxtrain.data.text.tokens import OF_TOKENS, read_description, tokens_path
from mxtrain.report.sinks.progress import with_progress

from . import classes, contents, masks, structure
from .contents import Content
from .copies import CopyFinder
from .findings import Finding, Pair, of_file, of_record
from .structure import RecordTable


class FileReport(NamedTuple):
    """The facts about one file."""

    path: Path
    num_bytes: int
    num_records: int
    has_checksums: bool
    classes: list[classes.Class]  # empty where labels are no class numbers
    contents: dict[str, Any]


class Report(NamedTuple):
    """The facts and findings about all files."""

    files: list[FileReport]
    findings: list[Finding]
    num_accepted: int = 0  # pairs of copies left out of the findings, because they were accepted


def check(paths: Sequence[Path], decode: bool = True, accepted: Collection[Pair] = ()) -> Report:
    """Check every byte of the files, and every pixel unless `decode` is False.

    Pairs of copies that are in `accepted` are no findings.
    """
    resolved = [path.resolve() for path in paths]
    for place, path in enumerate(paths):
        if resolved[place] in resolved[:place]:
            raise UsageError(f"{path} is given twice: every picture in it would be a copy")
    copies, files, findings = CopyFinder(), [], []
    for path in paths:
        try:
            file = RecordIOFile(path)
        except DataError as error:
            findings.append(Finding("unreadable", path, str(error)))
            continue
        file_report, of_file = _check_file(file, copies, decode)
        files.append(file_report)
        findings += of_file
    pairs = copies.findings()
    left = [finding for finding in pairs if finding.pair not in accepted]
    return Report(files, findings + left, len(pairs) - len(left))


def _check_file(file: RecordIOFile, copies: CopyFinder, decode: bool) -> tuple[FileReport, list[Finding]]:
    table, findings = structure.read_table(file)
    inspect: contents.Inspect = contents.decoded_picture if decode else contents.picture
    described: dict[str, Any] = {}
    of_content: list[Finding] = []
    if tokens_path(file.beside).exists():
        inspect, described, of_content = _documents(file.beside)
    elif sidecar_path(file.beside).exists():
        inspect, of_content = _samples(file.beside, len(table))
    class_counts: list[classes.Class] = []
    has_masks = masks.are_masked(file, table)
    if has_masks:
        inspect = masks.inspecting(inspect, table)
    else:
        class_counts, of_labels = _check_labels(table, described)
        of_content += of_labels
    findings += of_content
    statistics = _ContentStatistics()
    copies.start(table)
    for number, content in enumerate(with_progress(contents.read_all(file, table, inspect), len(table))):
        if isinstance(content, Finding):
            findings.append(content)
        else:
            statistics.add(content)
            copies.add(number, content)
            if content.is_empty:
                findings.append(of_record("empty", table.location(number), "it has no token but its end"))
            if content.says_nothing:
                findings.append(
                    of_record("empty-mask", table.location(number), "no pixel of its mask counts")
                )
    if has_masks:
        class_counts, of_classes = masks.counted(table, statistics.num_of_class)
        findings += of_classes
    if described and not any(finding.is_wrong for finding in findings):
        findings += _counts_against(described, statistics, file.beside)
    report = FileReport(
        file.beside, file.num_bytes, len(table), table.has_checksums, class_counts, statistics.summary()
    )
    return report, findings


def _check_labels(table: RecordTable, described: dict[str, Any]) -> tuple[list[classes.Class], list[Finding]]:
    """Return the classes, if there are some, and the findings about labels, as what is `described` has them."""
    if described.get("labels") == OF_TOKENS:
        return [], classes.check_token_labels(table)
    if tokens_path(table.path).exists() and not described.get("labels"):
        return [], []
    if sidecar_path(table.path).exists() and not classes_path(table.path).exists():
        return [], classes.check_numbers(table)
    return classes.count_classes(table)


def _samples(rec: Path, num_records: int) -> tuple[contents.Inspect, list[Finding]]:
    """Read the .arrays.json: return how to inspect its records, and the findings about it."""
    path = sidecar_path(rec)
    try:
        layout, counted = parse_sidecar(regular_files.read(path), path)
    except (OSError, ValueError) as error:
        return contents.picture, [of_file("arrays", path, f"{error}: pack again")]
    inspect = functools.partial(contents.sample, inputs=layout.inputs)
    if counted == num_records:
        return inspect, []
    return inspect, [
        of_file("arrays", path, f"says num_records {counted}, there are {num_records}: pack again")
    ]


def _documents(rec: Path) -> tuple[contents.Inspect, dict[str, Any], list[Finding]]:
    """Read the .tokens.json: return how to inspect its records, its content, and the findings about it."""
    path = tokens_path(rec)
    try:
        described = read_description(path)
    except DataError:
        return contents.picture, {}, [of_file("tokens", path, "is damaged: pack again")]
    inspect = functools.partial(
        contents.document,
        dtype=described["dtype"],
        vocab_size=described["vocab_size"],
        end_token=described["end_token"],
    )
    try:
        tokenizers.portable(described["tokenizer"], rec.parent)
    except DataError as error:
        return inspect, described, [Finding("tokens", path, str(error))]
    return inspect, described, []


def _counts_against(described: dict[str, Any], seen: _ContentStatistics, rec: Path) -> list[Finding]:
    """Return the findings where the .tokens.json counts other documents or tokens than there are."""
    sizes = seen.num_bytes()
    there = {"num_documents": len(sizes), "num_tokens": sum(sizes) // np.dtype(described["dtype"]).itemsize}
    return [
        of_file(
            "tokens",
            tokens_path(rec),
            f"says {name} {described.get(name)}, there are {count}: pack again",
        )
        for name, count in there.items()
        if described.get(name) != count
    ]


class _ContentStatistics:
    def __init__(self) -> None:
        self._formats: Counter[str] = Counter()
        self.num_of_class: Counter[int] = Counter()  # pictures whose masks have it
        self._num_progressive = self._num_with_restarts = 0
        self._values = {"height": array("q"), "width": array("q"), "num_bytes": array("q")}

    def add(self, content: Content) -> None:
        self._formats[content.format] += 1
        self.num_of_class.update(content.classes)
        self._num_progressive += content.is_progressive
        self._num_with_restarts += content.has_restarts
        for name, values in self._values.items():
            value = getattr(content, name)
            if value is not None:
                values.append(value)

    def num_bytes(self) -> array[int]:
        return self._values["num_bytes"]

    def summary(self) -> dict[str, Any]:
        """Summarize the whole pictures. Shares are fractions of the JPEGs; sizes are known if anything was decoded."""
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
