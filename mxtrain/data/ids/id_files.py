"""Files of columns with ids: CSV and TSV, Parquet, HDF5 and NumPy's, read a piece at a time where they can be.

Owns each format's way from a file to `Piece`s. Whole numbers stay what they are: an id has 64 bits, and a float64 holds
53 of them. Parquet needs pyarrow, HDF5 h5py (`pip install 'mxtrain[sources]'`).
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

import numpy as np

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays import table_files
from mxtrain.data.arrays.table_columns import Columns, Ragged, Words
from mxtrain.data.ids import text_columns, text_tables
from mxtrain.data.ids.id_columns import IdColumn, Lists, Piece, WithGaps
from mxtrain.data.ids.text_columns import TextColumn

SUFFIXES = tuple(table_files.READERS)
ROWS_AT_ONCE = 1 << 16  # of Parquet


class IdFile(NamedTuple):
    """A file of columns."""

    path: Path
    names: tuple[str, ...]
    pieces: Callable[[], Iterator[Piece]]
    num_header_lines: int = 1  # of a text


def open_file(path: Path, column_names: str = "") -> IdFile:
    """Open a file of columns; `column_names` are those of a text that has no line of them.

    DataError where it is damaged, UsageError where its name is that of no such file.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"{path}: is no table by its name ({', '.join(SUFFIXES)})")
    if suffix in text_tables.SUFFIXES:
        table = text_tables.open_table(path, column_names)
        return IdFile(path, table.names, functools.partial(_of_text, table), table.num_header_lines)
    if column_names:
        raise UsageError(f"--column-names {column_names}: {path} has names of its own; leave it out")
    return _parquet(path) if suffix == ".parquet" else of_columns(path, table_files.read(path))


def _of_text(table: text_tables.TextTable) -> Iterator[Piece]:
    num_before = 0
    for columns in table.pieces():
        yield Piece(columns, functools.partial(_text_row, table, num_before))
        num_before += len(next(iter(columns.values())))


def _text_row(table: text_tables.TextTable, num_before: int, row: int) -> str:
    return f"{table.path}: row {table.row_number(num_before + row)}"


def _sample(path: Path, num_before: int, row: int) -> str:
    return f"{path}: sample {num_before + row}"


def of_columns(path: Path, columns: Columns) -> IdFile:
    """Return columns in memory as a file of them; `path` is what messages call it."""
    piece = Piece(
        {name: _of_column(path, name, column) for name, column in columns.items()},
        functools.partial(_sample, path, 0),
    )
    return IdFile(path, tuple(columns), lambda: iter([piece]))


def _of_column(path: Path, name: str, column: Any) -> IdColumn:
    if isinstance(column, Words):
        return text_columns.of_texts(column.words)
    if isinstance(column, Ragged):
        items = np.asarray(column.rows).reshape(-1)
        return Lists(
            text_columns.of_texts(items.tolist()) if items.dtype.kind == "U" else items, column.lengths
        )
    values = np.asarray(column)
    if values.dtype.kind not in "biuf" or values.ndim > 2:
        raise DataError(f"{path}: {name} holds {values.dtype} {values.shape}, no ids and no numbers")
    if values.ndim == 2:
        return Lists(values.reshape(-1), np.full(len(values), values.shape[1], np.int64))
    return values


def _parquet(path: Path) -> IdFile:
    pyarrow = table_files.import_pyarrow()
    try:
        names = tuple(pyarrow.parquet.ParquetFile(path).schema_arrow.names)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    except pyarrow.ArrowException as error:
        raise table_files.no_parquet(path, error) from None

    def pieces() -> Iterator[Piece]:
        num_before = 0
        try:
            for batch in pyarrow.parquet.ParquetFile(path).iter_batches(ROWS_AT_ONCE):
                columns = {name: _of_arrow(path, name, batch.column(name)) for name in names}
                yield Piece(columns, functools.partial(_sample, path, num_before))
                num_before += batch.num_rows
        except (OSError, pyarrow.ArrowException) as error:
            raise DataError(f"{path} is a damaged Parquet file ({table_files.first_line(error)})") from None

    return IdFile(path, names, pieces)


def _of_arrow(path: Path, name: str, column: Any) -> IdColumn:
    """Return an array of Arrow's: texts, numbers, or lists of either; dates are texts."""
    import pyarrow.types as types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    arrow_type = column.type
    if types.is_list(arrow_type) or types.is_large_list(arrow_type) or types.is_fixed_size_list(arrow_type):
        lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        items = _of_arrow(path, name, column.flatten())
        if isinstance(items, Lists):
            raise DataError(f"{path}: {name} holds lists of lists; leave it out by --exclude {name}")
        return Lists(items, lengths)
    if types.is_null(arrow_type):
        return np.full(len(column), np.nan)
    if types.is_date(arrow_type) or types.is_timestamp(arrow_type):
        column = column.cast("string")
    if types.is_string(column.type) or types.is_large_string(column.type):
        return _of_strings(column.cast("large_string").fill_null(""))
    if types.is_decimal(arrow_type):
        column = column.cast("float64")
    if not (types.is_boolean(column.type) or types.is_integer(column.type) or types.is_floating(column.type)):
        raise DataError(f"{path}: {name} holds {arrow_type}, no ids and no numbers")
    is_missing = column.is_null().to_numpy(zero_copy_only=False)
    zero = False if types.is_boolean(column.type) else 0
    values = column.fill_null(zero).to_numpy(zero_copy_only=False)
    return WithGaps(values, is_missing) if is_missing.any() else values


def _of_strings(column: Any) -> TextColumn:
    """Return texts of Arrow's, as they lie in its memory."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return text_columns.stripped(TextColumn(content, ends[:-1].copy(), ends[1:].copy()))
