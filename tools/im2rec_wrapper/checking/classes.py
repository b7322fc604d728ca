"""The check of a .rec's labels and class list, and the number of images of each class."""

from __future__ import annotations

import math
from collections import Counter
from typing import Mapping, NamedTuple, Sequence

import numpy as np

from mxtrain.core import plain_text, regular_files
from mxtrain.data.labels.label_checks import are_yes_or_no
from mxtrain.data.records import recordio
from mxtrain.data.records.record_file import classes_path
from mxtrain.data.records.recordio import BadRecord, Label

from . import boxes
from .findings import Finding, of_file, of_record
from .structure import RecordTable

IMBALANCE = 10  # a finding from this ratio of the largest class to the smallest on


class Class(NamedTuple):
    label: int
    name: str
    num_images: int


def count_classes(table: RecordTable) -> tuple[list[Class], list[Finding]]:
    """Return the classes, none where labels are no class numbers, and the findings about labels and class list.

    With several labels a record, each label is a class's: above 0 where the class is in the picture, below 0 where that
    is unknown. Of boxes the images of a class are those that have a box of it.
    """
    names, counts_listed, findings = read_list(table)
    if boxes.are_boxes(table.labels, len(names)):
        findings += boxes.check(table, len(names))
        counts: Counter[int] | None = boxes.count(table.labels)
    else:
        findings += _check_labels(table, len(names) if names else None)
        counts = _count(table.labels, len(names))
    if counts is None:
        return [], findings
    classes = named(names, counts)
    findings += _check_counts(table, classes, counts_listed)
    return classes, findings + check_balance(table, classes)


def named(names: Sequence[str], counts: Mapping[int, int]) -> list[Class]:
    """Return the classes of the list, or those that there are where it names none, with their numbers of images."""
    labels: Sequence[int] = range(len(names)) if names else sorted(counts)
    return [Class(label, names[label] if names else str(label), counts[label]) for label in labels]


def check_numbers(table: RecordTable) -> list[Finding]:
    """Return the findings about labels that are numbers to predict: as many a record, and finite."""
    return _check_labels(table, None)


def check_token_labels(table: RecordTable) -> list[Finding]:
    """Return the findings about labels of words: each a class's number, or -1 for a token that has none."""
    names, _, findings = read_list(table)
    for number, label in enumerate(table.labels):
        wrong = [each for each in np.atleast_1d(label) if each not in range(-1, len(names))]
        if wrong:
            text = f"a token's label is {wrong[0]:g}, but the class list has {len(names)} classes"
            findings.append(of_record("label", table.location(number), text))
    return findings


def _count(labels: Sequence[Label], num_names: int) -> Counter[int] | None:
    """Count the images of each class; None where a label is no class, or one of several numbers to predict."""
    counts: Counter[int] = Counter()
    for label in labels:
        if isinstance(label, float):
            if not (label >= 0 and label.is_integer()):
                return None
            counts[int(label)] += 1
        elif len(label) == num_names and are_yes_or_no(label):
            counts.update(np.flatnonzero(label > 0).tolist())
        else:
            return None
    return counts


def read_list(table: RecordTable) -> tuple[list[str], list[int], list[Finding]]:
    """Read names and numbers of images from the .classes.tsv; there are no numbers if it has none."""
    path = classes_path(table.path)
    try:
        text = regular_files.read(path)
        names = recordio.parse_classes(text)
    except FileNotFoundError:
        return [], [], []
    except OSError as error:
        return [], [], [of_file("classes", path, f"cannot be read ({error.strerror})")]
    except BadRecord as bad:
        return [], [], [of_file("classes", path, str(bad))]
    columns = [line.split("\t")[1:] for line in plain_text.split_lines(text.decode("utf-8"))]
    if not any(columns):
        return names, [], []
    counts = [plain_text.parse_whole_number(column[0]) if len(column) == 1 else None for column in columns]
    if None in counts:
        return names, [], [of_file("classes", path, "is not lines of `name<TAB>number of images`")]
    return names, [count for count in counts if count is not None], []


def _check_labels(table: RecordTable, num_classes: int | None) -> list[Finding]:
    shapes = [np.shape(label) for label in table.labels]
    findings = []
    for number, label in enumerate(table.labels):
        reason = _label_error(label, num_classes)
        if shapes[number] != shapes[0]:
            reason = f"its label has shape {shapes[number]}, the first record's {shapes[0]}"
        if reason:
            findings.append(of_record("label", table.location(number), reason))
    return findings


def _label_error(label: Label, num_classes: int | None) -> str | None:
    if not isinstance(label, float):
        if num_classes not in (None, len(label)):
            return f"it has {len(label)} labels, but the class list has {num_classes} classes"
        return None if np.isfinite(label).all() else "one of its labels is no finite number"
    if not math.isfinite(label):
        return f"its label is {label}"
    if num_classes is not None and not (label.is_integer() and 0 <= label < num_classes):
        return (
            f"its label is {label:g}, but the class list has {num_classes} classes (0 to {num_classes - 1})"
        )
    return None


def _check_counts(table: RecordTable, classes: list[Class], counts_listed: list[int]) -> list[Finding]:
    different = [
        (found, listed) for found, listed in zip(classes, counts_listed) if found.num_images != listed
    ]
    if not different:
        return []
    found, listed = different[0]
    text = f"counts {listed} images of '{found.name}', but {table.path.name} has {found.num_images}"
    more = f"; {len(different)} classes differ" if len(different) > 1 else ""
    return [of_file("classes", classes_path(table.path), text + more)]


def check_balance(table: RecordTable, classes: list[Class]) -> list[Finding]:
    if not classes:
        return []
    smallest = min(classes, key=lambda one: one.num_images)
    largest = max(classes, key=lambda one: one.num_images)
    if largest.num_images <= IMBALANCE * smallest.num_images:
        return []
    text = (
        f"class '{largest.name}' has {largest.num_images} images, '{smallest.name}' has {smallest.num_images}"
    )
    return [of_file("imbalance", table.path, text)]
