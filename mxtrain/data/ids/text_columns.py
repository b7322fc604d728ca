"""Columns of text, whose cells lie in one piece of memory, and what they hold: ids, lists of ids, numbers.

Owns which id a cell has: a whole number in plain digits (`17`, `-3`, `17.0`) is the id itself, and any other text has
one by a hash of 64 bits (`tables/hashing.py`); a cell that is missing is the empty text. No Python object is made for a
cell, as they come by the million. Does not own files (`text_tables.py`), nor columns of other types (`id_columns.py`).
"""

from __future__ import annotations

import dataclasses
from typing import Sequence

import numpy as np
import numpy.typing as npt

from mxtrain.core import plain_text
from mxtrain.data.fields import Array
from mxtrain.tables import hashing

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
MOST_DIGITS = 19  # of int64's whole numbers
LARGEST = np.uint64((1 << 63) - 1)
_ZERO, _NINE, _MINUS, _POINT, _SPACE = b"09-. "


@dataclasses.dataclass(frozen=True, eq=False)
class TextColumn:
    """Texts in UTF-8: each is from its start to its end in `data`."""

    data: Bytes
    starts: Places
    ends: Places

    def __len__(self) -> int:
        return len(self.starts)

    def text(self, row: int) -> str:
        """Return a cell as text, for a message."""
        return self.data[self.starts[row] : self.ends[row]].tobytes().decode("utf-8", "replace")


def of_texts(texts: Sequence[str]) -> TextColumn:
    """Return texts as cells."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum(np.array([len(each) for each in encoded], np.int64))
    lengths = np.diff(ends, prepend=0)
    return TextColumn(np.frombuffer(b"".join(encoded), np.uint8), ends - lengths, ends)


def stripped(column: TextColumn) -> TextColumn:
    """Return cells without the spaces around them."""
    starts, ends = column.starts.copy(), column.ends.copy()
    while True:
        is_moved = (starts < ends) & (_at(column.data, starts) == _SPACE)
        if not is_moved.any():
            break
        starts += is_moved
    while True:
        is_moved = (starts < ends) & (_at(column.data, ends - 1) == _SPACE)
        if not is_moved.any():
            return TextColumn(column.data, starts, ends)
        ends -= is_moved


def ids(column: TextColumn) -> Array:
    """Return the int64 id of each cell."""
    is_whole, numbers = _whole_numbers(column)
    found = numbers
    others = np.flatnonzero(~is_whole)
    if len(others):
        found[others] = hashing.ids_of_parts(column.data, column.starts[others], column.ends[others])
    return found


def numbers(column: TextColumn) -> tuple[Array, Array]:
    """Return the float64 number of each cell, NaN where it is empty, and the rows of cells that are none."""
    is_whole, whole = _whole_numbers(column)
    found = whole.astype(np.float64)
    found[column.starts == column.ends] = np.nan
    wrong = []
    for row in np.flatnonzero(~is_whole & (column.starts < column.ends)).tolist():
        number = plain_text.parse_number(column.text(row))
        found[row] = np.nan if number is None else number
        if number is None:
            wrong.append(row)
    return found, np.array(wrong, np.int64)


def lists(column: TextColumn, separator: str) -> tuple[TextColumn, Places]:
    """Return the items of all cells, one after the other, and how many each cell has; an empty one has none."""
    code = separator.encode()[0]
    inside = np.flatnonzero(column.data == code)
    first, last = np.searchsorted(inside, column.starts), np.searchsorted(inside, column.ends)
    lengths = np.where(column.starts < column.ends, last - first + 1, 0)
    row = np.repeat(np.arange(len(column)), lengths)
    place = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    after = first[row] + place  # the separator that ends the item, unless the cell does
    bounds = np.append(inside, 0)
    starts = np.where(place == 0, column.starts[row], bounds[after - 1] + 1)
    ends = np.where(place == lengths[row] - 1, column.ends[row], bounds[np.minimum(after, len(inside))])
    return stripped(TextColumn(column.data, starts, ends)), lengths


def _whole_numbers(column: TextColumn) -> tuple[Array, Array]:
    """Return which cells are whole numbers, as plain digits or with `.0` behind them, and the numbers; others are 0."""
    lengths = column.ends - column.starts
    is_negative = (_at(column.data, column.starts) == _MINUS) & (lengths > 1)
    has_point = (lengths > 2) & (_at(column.data, column.ends - 1) == _ZERO)
    has_point &= _at(column.data, np.maximum(column.ends - 2, 0)) == _POINT
    starts, lengths = column.starts + is_negative, lengths - is_negative - 2 * has_point
    leading = _at(column.data, starts)
    may_be = (lengths > 0) & (lengths <= MOST_DIGITS) & (leading <= _NINE) & (leading >= _ZERO)
    may_be &= (leading != _ZERO) | ((lengths == 1) & ~is_negative)  # no 007, and no -0
    rows = np.flatnonzero(may_be)
    numbers = np.zeros(len(lengths), np.uint64)
    going_on = rows
    for place in range(int(lengths[rows].max(initial=0))):
        going_on = going_on[lengths[going_on] > place]
        digit = column.data[starts[going_on] + place]
        is_digit = (digit >= _ZERO) & (digit <= _NINE)
        if not is_digit.all():
            may_be[going_on[~is_digit]] = False
            going_on, digit = going_on[is_digit], digit[is_digit]
        numbers[going_on] = numbers[going_on] * np.uint64(10) + (digit - np.uint8(_ZERO))
    may_be &= numbers <= LARGEST
    whole = np.where(may_be, numbers, np.uint64(0)).view(np.int64)
    return may_be, np.where(is_negative, -whole, whole)


def _at(data: Bytes, offsets: Places) -> Bytes:
    """Return the bytes at these offsets, of which some may be behind the end."""
    return data[np.minimum(offsets, len(data) - 1)] if len(data) else np.zeros(len(offsets), np.uint8)
