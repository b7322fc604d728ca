"""Columns as ids, lists of ids and numbers, whatever type a file has them in.

Owns what is refused of a column, and that an id is one of its column alone, unless columns share rows
(`shared_rows.py`): the 3 of users is another row than the 3 of items. Does not read files (`id_files.py`), nor choose
columns (`id_tables.py`).
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Mapping, NamedTuple, Union

import numpy as np

from mxtrain.core.errors import DataError
from mxtrain.data.fields import Array
from mxtrain.data.ids import text_columns
from mxtrain.data.ids.text_columns import Places, TextColumn
from mxtrain.tables import hashing

LARGEST_WHOLE = 1 << 53  # from here on neighbours are one float64
_MISSING = hashing.ids_of([""])[0]  # the id of a cell that is empty


Items = Union[TextColumn, "WithGaps", Array]


@dataclasses.dataclass(frozen=True, eq=False)
class Lists:
    """A column of lists: the items of all rows, one after the other, and how many each row has."""

    items: Items
    lengths: Places

    def __len__(self) -> int:
        return len(self.lengths)


@dataclasses.dataclass(frozen=True, eq=False)
class WithGaps:
    """A column of numbers of which some are missing."""

    values: Array
    is_missing: Array

    def __len__(self) -> int:
        return len(self.values)


IdColumn = Union[Lists, Items]


class Piece(NamedTuple):
    """Some rows of a table: its columns by name, and what messages call a row."""

    columns: Mapping[str, IdColumn]
    row: Callable[[int], str]


def ids(piece: Piece, name: str, rows_of: str) -> Array:
    """Return the int64 id of each row in a column of categories; DataError where it holds lists or fractions.

    Those of the columns that have the rows of one column, `rows_of`, are the same.
    """
    column = piece.columns[name]
    if isinstance(column, Lists):
        raise DataError(f"{piece.row(0)}: its {name} is a list of ids, and one is taken; give --lists {name}")
    return of_column(rows_of, _ids(piece, name, column, lambda place: place))


def lists(piece: Piece, name: str, rows_of: str, separator: str) -> tuple[Array, Places]:
    """Return the int64 ids of the lists of a column, one after the other, and how many each row has.

    A number or a text alone is a list of one; what is missing, a list or an item of one, is left out. DataError where
    it holds fractions.
    """
    column = piece.columns[name]
    if isinstance(column, TextColumn):
        column = Lists(*text_columns.lists(column, separator))
    elif not isinstance(column, Lists):
        column = Lists(column, np.ones(len(column), np.int64))
    items, rows = column.items, np.repeat(np.arange(len(column)), column.lengths)
    is_missing = items.starts == items.ends if isinstance(items, TextColumn) else _with_gaps(items)[1]
    found = of_column(rows_of, _ids(piece, name, items, lambda place: int(rows[place])))
    return found[~is_missing], np.bincount(rows[~is_missing], minlength=len(column)).astype(np.int64)


def numbers(piece: Piece, name: str, advice: str = "") -> Array:
    """Return the float64 numbers of a column, NaN where one is missing; DataError where a row has something else."""
    column = piece.columns[name]
    if isinstance(column, Lists):
        raise DataError(
            f"{piece.row(0)}: its {name} is a list, and one number is taken; leave it out by --exclude"
        )
    if isinstance(column, TextColumn):
        found, wrong = text_columns.numbers(column)
        if len(wrong):
            row = int(wrong[0])
            raise DataError(
                f"{piece.row(row)}: its {name} is {column.text(row)!r}, no number: mend it{advice}"
            )
        return found
    values, is_missing = _with_gaps(column)
    return np.where(is_missing, np.nan, values.astype(np.float64))


def of_column(name: str, ids: Array) -> Array:
    """Return ids as those of a column alone: no two of them become one."""
    mark = hashing.ids_of([name]).view(np.uint64)
    found: Array = hashing.mixed(ids.view(np.uint64) ^ mark).view(np.int64)
    return found


def _ids(piece: Piece, name: str, column: Items, row_of: Callable[[int], int]) -> Array:
    if isinstance(column, TextColumn):
        return text_columns.ids(column)
    values, is_missing = _with_gaps(column)
    if values.dtype.kind == "f":
        whole = np.where(is_missing, 0, values)
        is_wrong = (whole != np.floor(whole)) | (np.abs(whole) >= LARGEST_WHOLE)
        if is_wrong.any():
            place = int(np.argmax(is_wrong))
            raise DataError(
                f"{piece.row(row_of(place))}: its {name} is {values[place]:g}, and ids are whole numbers, or texts; "
                "leave the column out of --categories and --lists"
            )
        values = whole
    return np.where(is_missing, _MISSING, values.astype(np.int64))


def _with_gaps(column: Array | WithGaps) -> tuple[Array, Array]:
    """Return numbers, and which of them are missing."""
    if isinstance(column, WithGaps):
        return column.values, column.is_missing
    return column, np.isnan(column) if column.dtype.kind == "f" else np.zeros(len(column), bool)
