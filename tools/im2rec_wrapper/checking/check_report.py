"""The output of `check`: its report as text or JSON, and the class balance as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator, Sequence

import numpy as np

from .. import drawing
from .check import FileReport, Report
from .classes import Class
from .findings import NOTES, WRONG, Finding

# Limits of the text; --json has everything.
_MOST_OF_A_FAULT = 10
_MOST_CLASSES = 20
_BAR_WIDTH = 40

_PLOT_WIDTH, _NAME_WIDTH, _COUNT_WIDTH, _PLOT_HEIGHT = 900, 200, 70, 1000
_BAR_COLOUR = (168, 110, 46)  # blue-green-red


def as_json(report: Report) -> dict[str, Any]:
    """Return the whole report as JSON; `num_told` counts the notes."""
    files = []
    for file in report.files:
        classes = [a_class._asdict() for a_class in file.classes]
        files.append({**file._asdict(), "path": str(file.path), "classes": classes})
    return {
        "num_wrong": sum(finding.is_wrong for finding in report.findings),
        "num_told": sum(not finding.is_wrong for finding in report.findings),
        "num_accepted": report.num_accepted,
        "files": files,
        "findings": [finding.as_json() for finding in report.findings],
    }


def as_text(report: Report) -> Iterator[str]:
    """Yield the lines of the report."""
    for file in report.files:
        yield from _file_lines(file)
    for verdict, faults in (("WRONG", WRONG), ("note", NOTES)):
        for fault, meaning in faults.items():
            yield from _list([found for found in report.findings if found.fault == fault], verdict, meaning)
    if report.num_accepted:
        yield f"accepted: {report.num_accepted} x copies that --accept lists"
    if not report.findings:
        yield "nothing wrong was found"


def _file_lines(file: FileReport) -> Iterator[str]:
    checksums = "with checksums" if file.has_checksums else "without checksums (written by another tool)"
    yield f"{file.path}: {file.num_records} records, {file.num_bytes} bytes, {checksums}"
    formats = ", ".join(f"{count} {name}" for name, count in file.contents["formats"].items())
    yield f"  contents: {formats or 'none that is whole'}"
    for what in ("height", "width", "num_bytes"):
        spread = file.contents.get(what)
        if spread:
            name = what.replace("num_", "")
            yield f"  {name}: {spread['min']} to {spread['max']}, median {spread['median']:g}"
    if file.contents["formats"].get("JPEG"):
        progressive, restarts = file.contents["progressive_share"], file.contents["restart_share"]
        yield f"  of the JPEGs: {progressive:.1%} progressive, {restarts:.1%} with restart intervals"
    if file.classes:
        yield f"  classes: {len(file.classes)}"
        yield from _bars(file.classes)


def _bars(classes: Sequence[Class]) -> Iterator[str]:
    """Yield a line for each class; of many, only the largest and the smallest."""
    largest = max(1, *(a_class.num_images for a_class in classes))
    shown: list[Class | None] = list(classes)
    if len(classes) > _MOST_CLASSES:
        by_size = sorted(classes, key=lambda a_class: -a_class.num_images)
        shown = [*by_size[: _MOST_CLASSES // 2], None, *by_size[-_MOST_CLASSES // 2 :]]
    for a_class in shown:
        if a_class is None:
            yield f"    ... {len(classes) - _MOST_CLASSES} classes of a size between these"
        else:
            bar = "#" * round(_BAR_WIDTH * a_class.num_images / largest)
            yield f"    {a_class.label:>5} {a_class.name:<20.20} {a_class.num_images:>8} {bar}"


def _list(findings: Sequence[Finding], verdict: str, meaning: str) -> Iterator[str]:
    if not findings:
        return
    yield f"{verdict}: {len(findings)} x {findings[0].fault} ({meaning})"
    for finding in findings[:_MOST_OF_A_FAULT]:
        yield f"  {finding.text}"
    if len(findings) > _MOST_OF_A_FAULT:
        yield f"  ... and {len(findings) - _MOST_OF_A_FAULT} more; --json lists all"


def plot_balance(files: Sequence[FileReport], out: Path) -> None:
    """Write a PNG with a bar for each class of each file."""
    drawing.save_png(np.vstack([_plot(file) for file in files]), out)


def _plot(file: FileReport) -> drawing.Canvas:
    height = min(max(_PLOT_HEIGHT // max(len(file.classes), 1), 2), 24)
    title_height = 40
    canvas = drawing.blank(title_height + height * len(file.classes) + 10, _PLOT_WIDTH)
    title = (
        f"{file.path.name}: {len(file.classes)} classes" if file.classes else f"{file.path.name}: no classes"
    )
    drawing.write(canvas, title, left=10, bottom=26, size=0.6)
    largest = max((a_class.num_images for a_class in file.classes), default=0)
    room = _PLOT_WIDTH - _NAME_WIDTH - _COUNT_WIDTH
    for place, a_class in enumerate(file.classes):
        top = title_height + place * height
        length = round(room * a_class.num_images / max(largest, 1))
        gap = 3 if height > 8 else 0
        canvas[top : top + height - gap, _NAME_WIDTH : _NAME_WIDTH + length] = _BAR_COLOUR
        if height >= 14:
            bottom = top + height - gap - 5
            drawing.write(canvas, a_class.name, left=10, bottom=bottom, size=0.42, width=_NAME_WIDTH - 20)
            drawing.write(canvas, str(a_class.num_images), _NAME_WIDTH + length + 6, bottom, size=0.42)
    return canvas
