"""Encodings: how a column of a table becomes numbers of a net, found in the training set and kept with the net.

Numbers and booleans are one feature. A column of categories is a feature for each of them, 1 for the row's and 0 for
the others. A missing number may be filled, and told by a feature beside it. Does not choose columns
(`table_selection.py`).
"""

from __future__ import annotations

import logging
import math
import re
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple

import numpy as np

from mxtrain.core import plain_text
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays.table_columns import Cells, Column, Other, Ragged, Words
from mxtrain.data.fields import Array

logger = logging.getLogger(__name__)
MOST_CATEGORIES = 1000
_AT_ONCE = 1 << 16  # rows
REFUSE, MEAN = "refuse", "mean"  # of --missing, which else is a number
_BOOLEANS = {"true": 1.0, "false": 0.0, "": math.nan}
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?|\d{1,2}[/.]\d{1,2}[/.]\d{4}")


class Encoding(NamedTuple):
    """Rule of a column: a feature for each of `categories`, or a number with what fills a missing one."""

    column: str
    categories: tuple[str, ...] = ()
    fill: float | None = None
    has_indicator: bool = False  # a feature beside the number: 1 where it is missing
    is_log: bool = False  # of a number: its logarithm, as `signed_log` has it, before all else

    @property
    def is_plain(self) -> bool:
        """Return whether the column is taken as it is."""
        return self == Encoding(self.column)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        if self.categories:
            return tuple(f"{self.column}={each}" for each in self.categories)
        return (self.column, f"{self.column}=missing") if self.has_indicator else (self.column,)

    def as_json(self) -> dict[str, Any]:
        found = {**self._asdict(), "categories": list(self.categories)}
        if not self.is_log:
            del found["is_log"]  # as older versions wrote it
        return found

    def features(self, path: Path, column: Column) -> Array:
        """Return the features of all rows, (rows, features); DataError where the column holds something else."""
        if self.categories:
            return self._one_hot(path, column)
        numbers = numbers_of(path, self.column, column)
        if self.is_log:
            numbers = signed_log(numbers)
        if self.fill is None:
            return numbers[:, None]
        if isinstance(column, Cells):
            row, word = column.first_word
            raise DataError(f"{path}: row {row + 2}: its {self.column} is {word!r}, no number: mend it")
        is_missing = np.isnan(numbers)
        filled = np.where(is_missing, self.fill, numbers)
        return np.stack([filled, is_missing.astype(filled.dtype)][: len(self.names)], axis=1)

    def _one_hot(self, path: Path, column: Column) -> Array:
        place = {each: number for number, each in enumerate(self.categories)}
        found = _texts(path, self.column, column)
        places = np.array([place.get(each, -1) for each in found], np.int64)
        unknown = np.flatnonzero(places < 0)
        if len(unknown):
            logger.warning(
                "%s: column %s has categories that the training set has not (rows: %d, the first '%s'); their features "
                "are all 0",
                *(path, self.column, len(unknown), found[unknown[0]]),
            )
        return np.equal.outer(places, np.arange(len(self.categories))).astype(np.float32)


def encoding_of_json(described: Mapping[str, Any]) -> Encoding:
    """Return the encoding that `as_json` has described; KeyError, TypeError or ValueError where it is none."""
    fill = None if described["fill"] is None else float(described["fill"])
    categories = tuple(map(str, described["categories"]))
    flags = bool(described["has_indicator"]), bool(described.get("is_log", False))
    return Encoding(str(described["column"]), categories, fill, *flags)


def of_categories(path: Path, name: str, column: Column) -> Encoding:
    """Return the encoding of a column of categories, each of which its rows have; an empty cell is one too."""
    found = sorted(set(_texts(path, name, column)))
    if len(found) > MOST_CATEGORIES:
        raise UsageError(
            f"--categories: column {name} of {path} has {len(found)} different values, too many for a feature each "
            f"(at most {MOST_CATEGORIES}); leave it out by --exclude {name}"
        )
    return Encoding(name, tuple(found))


def of_numbers(path: Path, name: str, column: Column, missing: str, is_log: bool = False) -> Encoding:
    """Return the encoding of a column of numbers, where --missing says what becomes of those that are not there."""
    if missing == REFUSE:
        return Encoding(name, is_log=is_log)
    numbers = numbers_of(path, name, column)
    count = num_missing = 0

    def finite_numbers() -> Iterator[float]:
        nonlocal count, num_missing
        for start in range(0, len(numbers), _AT_ONCE):
            chunk = np.asarray(numbers[start : start + _AT_ONCE], np.float64)
            chunk = signed_log(chunk) if is_log else chunk
            finite = chunk[np.isfinite(chunk)]
            count, num_missing = count + len(finite), num_missing + int(np.isnan(chunk).sum())
            yield from finite.tolist()

    total = math.fsum(finite_numbers())
    if not count:
        raise DataError(f"{path}: column {name} holds no number; leave it out by --exclude {name}")
    if missing == MEAN:
        fill = total / count
    else:
        fill = float(signed_log(np.array(float(missing)))) if is_log else float(missing)
    return Encoding(name, (), fill, num_missing > 0, is_log)


def signed_log(numbers: Array) -> Array:
    """Return log(1 + x), and -log(1 - x) of what is below 0."""
    found: Array = np.copysign(np.log1p(np.abs(numbers.astype(np.float64))), numbers)
    return found


def check_missing(missing: str) -> None:
    """Refuse what --missing cannot be."""
    number = None if missing in (REFUSE, MEAN) else plain_text.parse_number(missing)
    if missing not in (REFUSE, MEAN) and (number is None or not math.isfinite(number)):
        raise UsageError(
            f"--missing {missing}: give {REFUSE}, {MEAN}, or the number that stands for missing ones"
        )


def numbers_of(path: Path, name: str, column: Column) -> Array:
    """Return a column of single numbers, NaN where one is missing; DataError where it holds none."""
    if isinstance(column, Cells):
        return column.numbers
    if isinstance(column, Words):
        booleans = [_BOOLEANS.get(word.lower()) for word in column.words]
        if None not in booleans:
            return np.array(booleans, np.float64)
    problem = why_no_numbers(name, column)
    if problem:
        raise DataError(f"{path}: {problem}")
    return np.asarray(column)


def why_no_numbers(name: str, column: Column) -> str | None:
    """Return why a column's values are no numbers, and what to do; None where they are, or are arrays."""
    if isinstance(column, Other):
        return (
            f"column {name} holds {column.type_name}, which is no number, word or list of numbers; leave it out by "
            f"--exclude {name}"
        )
    if not isinstance(column, Words) or isinstance(column, Cells) or is_of_booleans(column):
        return None
    word = next((word for word in column.words if word), "")
    if is_of_dates(column):
        return (
            f"column {name} holds dates ('{word}'), which are no numbers; put numbers in their place, as days since a "
            f"first one, or leave it out by --exclude {name}"
        )
    return (
        f"column {name} holds words ('{word}'), and nets take numbers; --categories {name} makes numbers of them, "
        f"--exclude {name} leaves them out"
    )


def is_of_booleans(column: Column) -> bool:
    """Return whether a column holds the words True and False, in any case, or nothing, and no others."""
    return isinstance(column, Words) and {word.lower() for word in column.words} <= set(_BOOLEANS)


def is_of_dates(column: Column) -> bool:
    """Return whether all words of a column are dates, and there are some."""
    if not isinstance(column, Words):
        return False
    words = set(column.words) - {""}
    return bool(words) and all(_DATE.fullmatch(word) for word in words)


def _texts(path: Path, name: str, column: Column) -> list[str]:
    """Return the category of each row: 3, 3.0 and '3' are one, and so are True and 'true'; '' where it is missing."""
    if isinstance(column, (Other, Ragged)) or (not isinstance(column, Words) and np.ndim(column) != 1):
        raise UsageError(
            f"--categories: column {name} of {path} holds no single words or numbers; leave it out"
        )
    if is_of_dates(column):
        raise DataError(f"{path}: {why_no_numbers(name, column)}")
    values = column.words if isinstance(column, Words) else np.asarray(column).tolist()
    text_of = {value: _text(value) for value in set(values)}
    return [text_of[value] for value in values]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value)
    number = plain_text.parse_number(value) if isinstance(value, str) else float(value)
    if number is None:
        return value.capitalize() if value.lower() in ("true", "false") else str(value)
    if math.isnan(number):
        return ""
    return str(int(number)) if number.is_integer() else repr(number)
