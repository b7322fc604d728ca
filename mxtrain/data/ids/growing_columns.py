"""Columns that grow a piece at a time, in memory or in files that vanish with the process.

Owns where the numbers lie meanwhile. What they mean is `id_tables.py`'s.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, BinaryIO, Callable, Protocol, cast

import numpy as np

from mxtrain.core import durable
from mxtrain.data.fields import Array


class GrowingColumn(Protocol):
    """A column of rows of one shape and type, some of which are appended at a time."""

    def append(self, rows: Array) -> None:
        """Append rows."""

    def finished(self) -> Array:
        """Return all rows, to be read only; nothing is appended any more."""


NewColumn = Callable[[], GrowingColumn]


class MemoryColumn:
    """A column in memory."""

    def __init__(self) -> None:
        self._parts: list[Array] = []

    def append(self, rows: Array) -> None:
        self._parts.append(rows)

    def finished(self) -> Array:
        found = np.concatenate(self._parts)
        self._parts = []
        return found


class FileColumn:
    """A column in a file without a name in a folder, which the system has in memory as far as there is room."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._shape: tuple[int, ...] = ()
        self._dtype: Any = None
        self._num_rows = 0
        try:
            self._file = cast(BinaryIO, tempfile.TemporaryFile(dir=folder))  # noqa: SIM115 (`finished` closes it)
        except OSError as error:
            raise durable.cannot_write(folder, error) from None

    def append(self, rows: Array) -> None:
        self._shape, self._dtype = rows.shape[1:], rows.dtype
        self._num_rows += len(rows)
        try:
            self._file.write(np.ascontiguousarray(rows).data)
        except OSError as error:
            raise durable.cannot_write(self._folder, error) from None

    def finished(self) -> Array:
        shape = (self._num_rows, *self._shape)
        with self._file as file:
            try:
                file.flush()
            except OSError as error:
                raise durable.cannot_write(self._folder, error) from None
            if not np.prod(shape):
                return np.zeros(shape, self._dtype)
            return np.memmap(file, self._dtype, "r", shape=shape).view(np.ndarray)
