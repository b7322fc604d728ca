"""The check of labels of boxes: what no detector should learn, and what is odd, box by box."""

from __future__ import annotations

from collections import Counter
from typing import Iterator, Sequence

import numpy as np

from mxtrain.data.boxes import box_labels
from mxtrain.data.fields import Array
from mxtrain.data.records.recordio import Label

from .findings import Finding, of_record
from .structure import RecordTable

BEYOND = 0.01  # of a side that a box may reach outside by rounding


def are_boxes(labels: Sequence[Label], num_names: int) -> bool:
    """Return whether labels are of boxes: rows whose lengths differ, or are none of a number for each class."""
    if not labels or any(isinstance(label, float) for label in labels):
        return False
    lengths = {len(label) for label in map(np.atleast_1d, labels)}
    if len(lengths) == 1 and (num_names in lengths or lengths == {1}):
        return False
    readable = sum(_read(label) is not None for label in labels)
    return readable * 2 > len(labels)


def count(labels: Sequence[Label]) -> Counter[int]:
    """Return how many pictures have boxes of each class."""
    counts: Counter[int] = Counter()
    for label in labels:
        boxes = _read(label)
        if boxes is not None:
            counts.update({int(number) for number in boxes[:, 4] if number >= 0})
    return counts


def check(table: RecordTable, num_classes: int) -> list[Finding]:
    """Return the findings about boxes; with a list of classes also those of none of them."""
    found = []
    for number, label in enumerate(table.labels):
        try:
            boxes = box_labels.boxes_of(label, 1, 1)
        except ValueError as bad:
            found.append(of_record("label", table.location(number), str(bad)))
            continue
        for fault, text in _faults(boxes, num_classes):
            found.append(of_record(fault, table.location(number), text))
    return found


def _faults(boxes: Array, num_classes: int) -> Iterator[tuple[str, str]]:
    seen: set[bytes] = set()
    for row in boxes:
        left, top, right, bottom, which = row[:5].tolist()
        shown = f"box ({', '.join(f'{each:g}' for each in row[:4])}) of class {which:g}"
        if which % 1 or which < 0 or (num_classes and which >= num_classes):
            yield (
                "box",
                f"{shown}: there is no such class" + (f"; the list has {num_classes}" if num_classes else ""),
            )
        elif np.abs(row[:4]).max() > box_labels.MOST_SHARE:
            yield "box", f"{shown}: in pixels, not in shares of the picture's sides"
        elif right < left or bottom < top:
            yield "box", f"{shown}: its right or lower side is before the other"
        elif right == left or bottom == top:
            yield "box", f"{shown}: empty"
        elif min(right, bottom) <= 0 or max(left, top) >= 1:
            yield "box", f"{shown}: outside its picture"
        elif min(left, top) < -BEYOND or max(right, bottom) > 1 + BEYOND:
            yield "odd-box", f"{shown}: reaches outside its picture"
        elif row[:5].tobytes() in seen:
            yield "odd-box", f"{shown}: there twice"
        seen.add(row[:5].tobytes())


def _read(label: Label) -> Array | None:
    try:
        return box_labels.boxes_of(label, 1, 1)
    except ValueError:
        return None
