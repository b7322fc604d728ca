"""The labels of records and the class list, from labels as sources hold them: words or numbers.

One label an item: words are classes by name, whole numbers are classes by number, other numbers stay what they are.
Several labels (--multi-label): words become a 0 or 1 for each class; numbers, the same count for each item, stay,
unless they are lists of classes, which become a 0 or 1 too.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, List, Sequence, Tuple, Union

from mxtrain.core import plain_text
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.labels import label_precision
from mxtrain.data.sources.item import Label

RawLabels = Tuple[Union[str, float], ...]  # the labels of one item, as its source holds them
ResolvedLabels = Tuple[List[Label], Union[List[str], None]]

MAX_EXACT = 1 << 24  # records hold labels as float32
_LARGEST = 3.4028234e38
MAX_NUMBERED_CLASSES = 1 << 16


def resolve_labels(
    raw_labels: Sequence[RawLabels],
    where: Path,
    multi_label: bool,
    class_names: Sequence[str] | None = None,
    are_lists: bool = False,
) -> ResolvedLabels:
    """Return the label of each item, and the class names: `class_names` if they fit, else made from the labels.

    With `are_lists` the source says that labels are classes, as many as an item has. `where` is the source's name in
    messages. DataError for labels that no record can hold, UsageError for several labels an item without `multi_label`.
    """
    if not raw_labels:
        raise DataError(f"{where} holds nothing to pack")
    lengths = sorted({len(labels) for labels in raw_labels})
    numbers = _as_numbers(raw_labels)
    if not lengths[0] and not are_lists and (numbers is not None or not multi_label):
        raise DataError(f"{where}: {sum(not labels for labels in raw_labels)} items have no label")
    _refuse_not_finite(numbers or (), where)
    if not multi_label:
        if lengths[-1] > 1:
            raise UsageError(
                f"{where} has items with {lengths[-1]} labels: add --multi-label to pack them, and learn them with "
                "--task multilabel"
            )
        return (
            _classes_by_name(raw_labels, where) if numbers is None else _single(numbers, where, class_names)
        )
    if numbers is None:
        return _one_or_zero(raw_labels, where)
    if are_lists:
        return _one_or_zero_by_number(numbers, where)
    if len(lengths) > 1:
        raise DataError(
            f"{where} has items with {lengths[0]} and with {lengths[-1]} labels: make them as many"
        )
    refuse_cut(numbers, where)
    names = list(class_names) if class_names and len(class_names) == lengths[0] else []
    return [tuple(numbers_of_one) for numbers_of_one in numbers], _checked(names, where) or None


def _as_numbers(raw_labels: Sequence[RawLabels]) -> list[list[float]] | None:
    """Return None where one of the labels is a word."""
    numbers: list[list[float]] = []
    for labels in raw_labels:
        found = [
            plain_text.parse_number(label) if isinstance(label, str) else _float(label) for label in labels
        ]
        numbers.append([number for number in found if number is not None])
        if None in found:
            return None
    return numbers


def _float(label: float) -> float:
    try:
        return float(label)
    except OverflowError:  # a whole number of hundreds of digits, as JSON may have it
        return float("inf")


def _refuse_not_finite(numbers: Sequence[Sequence[float]], where: Path) -> None:
    for number in (number for labels in numbers for number in labels):
        if not abs(number) < float("inf"):
            raise DataError(f"{where} has labels that are no finite numbers: mend them")
        if abs(number) > _LARGEST:
            raise DataError(
                f"{where} has the label {number:g}, and records hold numbers up to {_LARGEST:g} only"
            )


def refuse_cut(labels: Any, where: Path) -> None:
    """Refuse numbers that records, which hold float32, would cut by what tells them apart, with a DataError."""
    if label_precision.are_cut(labels):
        raise DataError(
            f"{where}: what is to be predicted changes too little for numbers so large, and records hold float32, "
            "which would cut that away; subtract its mean, or train on a table, .npz, .h5 or Dataset as it is"
        )


def _single(
    numbers: Sequence[Sequence[float]], where: Path, class_names: Sequence[str] | None
) -> ResolvedLabels:
    singles = [number for (number,) in numbers]
    if any(number < 0 or number != int(number) for number in singles):
        refuse_cut(singles, where)
        return list(singles), None
    largest = int(max(singles))
    if largest > MAX_EXACT:
        raise DataError(
            f"{where} has the label {largest}, and records hold whole numbers up to {MAX_EXACT} only"
        )
    names = list(class_names or ())
    if largest >= len(names):
        names = [str(number) for number in range(largest + 1)] if largest < MAX_NUMBERED_CLASSES else []
    return [int(number) for number in singles], _checked(names, where) or None


def _classes_by_name(raw_labels: Sequence[RawLabels], where: Path) -> ResolvedLabels:
    names = _sorted_names({str(label) for (label,) in raw_labels}, where)
    of_name = {name: label for label, name in enumerate(names)}
    return [of_name[str(label)] for (label,) in raw_labels], names


def _one_or_zero(raw_labels: Sequence[RawLabels], where: Path) -> ResolvedLabels:
    names = _sorted_names({str(label) for labels in raw_labels for label in labels}, where)
    return [
        tuple(float(name in {str(label) for label in labels}) for name in names) for labels in raw_labels
    ], names


def _one_or_zero_by_number(numbers: Sequence[Sequence[float]], where: Path) -> ResolvedLabels:
    listed = {number for of_item in numbers for number in of_item}
    wrong = [
        number for number in listed if not (0 <= number < MAX_NUMBERED_CLASSES and number == int(number))
    ]
    if not listed:
        raise DataError(f"{where}: lists no class at all: give some")
    if wrong:
        raise DataError(
            f"{where} lists {wrong[0]:g} among classes, which are whole numbers from 0 to {MAX_NUMBERED_CLASSES - 1}"
        )
    count = int(max(listed)) + 1
    rows = [tuple(float(number in of_item) for number in range(count)) for of_item in map(set, numbers)]
    return list(rows), [str(number) for number in range(count)]


def _sorted_names(names: set[str], where: Path) -> list[str]:
    return _checked(sorted(names), where)


def _checked(names: list[str], where: Path) -> list[str]:
    """Return the names, if a class list can hold them all."""
    for name in names:
        check_class_name(name, str(where))
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError(f"{where}: {repeated[0]!r} names two classes: give each a name of its own")
    return names


def check_class_name(name: str, where: str) -> str:
    """Return the name, if a line of a class list can hold it; else raise DataError."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise DataError(f"{where}: class {name!r} has a name that is not UTF-8: rename it") from None
    if not name or any(character in name for character in "\t\r\n"):
        raise DataError(f"{where}: class {name!r} has an empty name, a tab or a line break in it: rename it")
    return name
