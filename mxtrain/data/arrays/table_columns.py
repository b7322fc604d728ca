"""Columns of tables: numbers, words, cells that are either, and arrays, with a value for every sample.

Owns their types alone. Does not read files (`table_files.py`), nor choose columns (`table_selection.py`).
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, Sequence

import numpy as np
import numpy.typing as npt

Column = Any  # a sequence of samples: an array, an HDF5 dataset, `Ragged`, or `Words`
Columns = Dict[str, Column]


class Ragged:
    """A column of arrays that differ in length: rows of one array, cut by the numbers of them."""

    def __init__(self, rows: Any, lengths: Sequence[int] | npt.NDArray[Any]):
        self.rows = rows
        self._ends: npt.NDArray[np.int64] = np.cumsum(np.asarray(lengths, np.int64))
        self.shape_inside: tuple[int, ...] = tuple(rows.shape[1:])
        self.dtype = rows.dtype

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of rows of each array."""
        return np.diff(self._ends, prepend=0)

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """The first row of each array."""
        return np.append(0, self._ends)[:-1]

    def __getitem__(self, position: int) -> Any:
        return self.rows[self._ends[position - 1] if position else 0 : self._ends[position]]

    def __iter__(self) -> Iterator[Any]:
        return (self[position] for position in range(len(self)))


class Words:
    """A column of words."""

    def __init__(self, words: Sequence[str]):
        self.words = list(words)

    def __len__(self) -> int:
        return len(self.words)


class Cells(Words):
    """A column of a text with words among its numbers, which are NaN in `numbers`."""

    def __init__(self, words: Sequence[str], numbers: npt.NDArray[np.float64]):
        super().__init__(words)
        self.numbers = numbers

    @property
    def first_word(self) -> tuple[int, str]:
        """The row, from 0, of the first cell that is no number and not empty, and that cell."""
        row = next(row for row, word in enumerate(self.words) if word and np.isnan(self.numbers[row]))
        return row, self.words[row]


class Other:
    """A column of a type that is never read, but may be left out."""

    def __init__(self, type_name: str, num_rows: int):
        self.type_name = type_name
        self._num_rows = num_rows

    def __len__(self) -> int:
        return self._num_rows


def listed(columns: Columns) -> str:
    """Return the names of columns for messages; an index that pandas wrote may have none."""
    names = list(filter(None, columns))
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
