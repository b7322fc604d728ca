"""Columns of files: CSV and TSV, Parquet, HDF5, and NumPy's .npz and .npy.

Owns reading them into columns by name, each of which has a value for every sample: a number, a word or an array. What
is an input and what a target is `tables.py`'s. Parquet needs pyarrow, HDF5 h5py (`pip install 'mxtrain[sources]'`).
"""

from __future__ import annotations

import csv
import io
import itertools
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator

import numpy as np

from mxtrain.core import plain_text, regular_files
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays.table_columns import Cells, Column, Columns, Other, Ragged, Words

LENGTHS = (
    "_lengths"  # NAME_lengths: how many rows of NAME, which has all of them one after the other, a sample has
)
_LONGEST_CELL = (1 << 31) - 1  # instead of 131,072 characters; a C long on every system
_END = "end"  # a row after the last, which becomes part of a quote that is not closed


def read(path: Path) -> Columns:
    """Return the columns of a file, by name and in its order; DataError where it is damaged, or holds none."""
    read_columns = READERS[path.suffix.lower()]
    try:
        regular_files.require(path)
        columns = read_columns(path)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    return checked(path, columns)


def checked(path: Path | str, columns: Columns) -> Columns:
    """Return columns of as many samples, those with NAME_lengths beside them cut; DataError, of `path`, for others."""
    if not columns:
        raise DataError(f"{path} holds no columns")
    columns = _with_lengths(path, columns)
    counts = {name: len(column) for name, column in columns.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise DataError(
            f"{path}: its arrays are of different numbers of samples ({listed}); make them as many"
        )
    if not next(iter(counts.values())):
        raise DataError(f"{path} holds no samples")
    return columns


def _with_lengths(path: Path | str, columns: Columns) -> Columns:
    """Return columns with each NAME that has a NAME_lengths beside it cut by that."""
    cut: Columns = {}
    for name, column in columns.items():
        if name.endswith(LENGTHS) and name[: -len(LENGTHS)] in columns:
            continue
        lengths = columns.get(name + LENGTHS)
        if lengths is None:
            cut[name] = column
            continue
        numbers = np.asarray(lengths)
        if (
            numbers.ndim != 1
            or numbers.dtype.kind not in "iu"
            or (numbers < 0).any()
            or numbers.sum() != len(column)
        ):
            raise DataError(
                f"{path}: {name}{LENGTHS} has to be a whole number for each sample, which add up to the {len(column)} "
                f"rows of {name}"
            )
        cut[name] = Ragged(column, numbers.tolist())
    return cut


def _table(path: Path) -> Columns:
    """Read a CSV or TSV. A cell that is empty is no number (NaN)."""
    names, lines = cells(path)
    return {name: _of_cells([line[place] for line in lines]) for place, name in enumerate(names)}


def cells(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns of a CSV or TSV, which its first line has, and the cells of its rows."""
    try:
        text = regular_files.read(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text: save it as UTF-8") from None
    separator = max("\t,;", key=text.split("\n", 1)[0].count)
    rows = [[cell.strip() for cell in cells] for cells in csv_rows(path, text, separator)]
    if not rows:
        raise DataError(f"{path} is empty")
    names, *lines = rows
    if all(plain_text.parse_number(name) is not None for name in names):
        raise DataError(
            f"{path}: its first line has numbers, not the names of the columns; put them in front"
        )
    # pandas writes its index first, and gives it no name
    repeated = [name for place, name in enumerate(names) if name in names[:place] or (place and not name)]
    if repeated:
        raise DataError(
            f"{path}: its first line names column {repeated[0]!r} twice, or not at all; name each once"
        )
    for number, line in enumerate(lines, 2):
        if len(line) != len(names):
            raise DataError(
                f"{path}: row {number} has {len(line)} cells, the first line {len(names)}: mend it"
            )
    return names, lines


def csv_rows(path: Path, text: str, separator: str) -> list[list[str]]:
    """Return the cells of a table, without empty lines."""
    return list(csv_rows_of_lines(path, io.StringIO(text), separator))


def csv_rows_of_lines(path: Path, lines: Iterable[str], separator: str) -> Iterator[list[str]]:
    """Yield the cells of each row of a table that is not empty, as its lines come."""
    return (cells for _, cells in numbered_csv_rows(path, lines, separator))


def numbered_csv_rows(path: Path, lines: Iterable[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row that is not empty, with the number of the line in which it begins."""
    csv.field_size_limit(_LONGEST_CELL)
    reader = csv.reader(itertools.chain(lines, ["\n", _END]), delimiter=separator)
    last: list[str] = []
    begins, next_line = 0, 1
    try:
        for cells in reader:
            if last:
                yield begins, last
            begins, last, next_line = next_line, cells, reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}: line {reader.line_num} is no CSV ({error}): mend it") from None
    if last != [_END]:
        raise DataError(f"{path}: line {begins} has a quote that nothing closes: mend it")


def _of_cells(cells: list[str]) -> Column:
    """Return numbers, NaN where a cell is empty, words where no cell is a number, or cells where some are."""
    numbers = [plain_text.parse_number(cell) for cell in cells]
    if cells and all(number is None for number in numbers) and any(cells):
        return Words(cells)
    found = np.array([np.nan if number is None else number for number in numbers])
    has_words = any(number is None and cell for number, cell in zip(numbers, cells))
    return Cells(cells, found) if has_words else found


def _npz(path: Path) -> Columns:
    return _loaded(path, lambda found: {name: found[name] for name in found.files})


def _npy(path: Path) -> Columns:
    """Read one array: a structured one has named columns, those of a table are called by their numbers."""

    def columns(array: Any) -> Columns:
        if array.dtype.names:
            return {name: array[name] for name in array.dtype.names}
        if array.ndim != 2:
            raise DataError(
                f"{path}: holds an array of shape {array.shape}; give a table, or an .npz of named arrays"
            )
        return {str(place): array[:, place] for place in range(array.shape[1])}

    return _loaded(path, columns)


def _loaded(path: Path, columns: Callable[[Any], Columns]) -> Columns:
    import zipfile

    try:
        found = np.load(path, allow_pickle=False)
        read_columns = columns(found)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, DataError):
            raise
        hint = ""
        if "pickle" in str(error):
            hint = f"; Python objects are not read: of arrays of different lengths give all rows, and NAME{LENGTHS}"
        raise DataError(f"{path} is no whole file of NumPy's, or holds more than arrays{hint}") from None
    return {name: of_array(path, name, column) for name, column in read_columns.items()}


def of_array(path: Path | str, name: str, column: Any) -> Column:
    """Return an array as a column: texts and dates as words."""
    if not np.ndim(column):
        raise DataError(f"{path}: {name} is a single value, not one for each sample")
    if column.dtype.kind in "US" and column.ndim == 1:
        return Words(
            [word.decode("utf-8", "replace") if isinstance(word, bytes) else str(word) for word in column]
        )
    if column.dtype.kind == "M" and column.ndim == 1:
        return Words(["" if np.isnat(moment) else str(moment) for moment in column])
    return column


def _hdf5(path: Path) -> Columns:
    try:
        import h5py
    except ImportError:
        raise UsageError("reading HDF5 needs the package h5py: pip install 'mxtrain[sources]'") from None
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise DataError(f"{path} is no HDF5 file, or a damaged one ({error})") from None
    columns: Columns = {}

    def add(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset):
            columns[name] = _of_dataset(path, name, node)

    file.visititems(add)
    return columns


def _of_dataset(path: Path, name: str, dataset: Any) -> Column:
    if dataset.dtype.kind in "OS" and not getattr(dataset.dtype, "metadata", None):
        return of_array(path, name, dataset[()])
    if dataset.dtype.kind == "O":
        import h5py

        if h5py.check_string_dtype(dataset.dtype):
            return Words(dataset.asstr()[()].tolist())
        rows = dataset[()].tolist()  # arrays of different lengths
        return Ragged(np.concatenate(rows), [len(row) for row in rows])
    return of_array(path, name, dataset) if dataset.ndim else of_array(path, name, dataset[()])


def import_pyarrow() -> Any:
    """Return pyarrow with what reads Parquet; UsageError where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(
            "reading Parquet needs the package pyarrow: pip install 'mxtrain[sources]'"
        ) from None
    return pyarrow


def no_parquet(path: Path, error: Exception) -> DataError:
    """Return the error for a file that pyarrow does not read."""
    return DataError(f"{path} is no Parquet file, or a damaged one ({first_line(error)})")


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, of one without a message its type."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _parquet(path: Path) -> Columns:
    pyarrow = import_pyarrow()
    try:
        table = pyarrow.parquet.read_table(path).combine_chunks()
    except pyarrow.ArrowException as error:
        raise no_parquet(path, error) from None
    return {name: _of_arrow(path, name, table.column(name)) for name in table.column_names}


def _of_arrow(path: Path, name: str, column: Any) -> Column:
    """Return a column of Arrow's: numbers, words, or lists, which may hold lists of the same length."""
    import pyarrow.types as arrow_types

    arrow_type = column.type
    if arrow_types.is_dictionary(arrow_type):
        column, arrow_type = column.cast(arrow_type.value_type), arrow_type.value_type
    if arrow_types.is_null(arrow_type):
        return np.full(len(column), np.nan)
    if arrow_types.is_date(arrow_type) or arrow_types.is_timestamp(arrow_type):
        return Words(["" if moment is None else str(moment) for moment in column.to_pylist()])
    if arrow_types.is_string(arrow_type) or arrow_types.is_large_string(arrow_type):
        return Words(["" if word is None else word for word in column.to_pylist()])
    if (
        arrow_types.is_list(arrow_type)
        or arrow_types.is_large_list(arrow_type)
        or arrow_types.is_fixed_size_list(arrow_type)
    ):
        try:
            rows = [np.array([] if row is None else row, np.float64) for row in column.to_pylist()]
            return Ragged(np.concatenate([row for row in rows if row.size]), [len(row) for row in rows])
        except ValueError as error:
            raise DataError(f"{path}: {name} holds lists that are no arrays of numbers ({error})") from None
    if (
        arrow_types.is_boolean(arrow_type)
        or arrow_types.is_integer(arrow_type)
        or arrow_types.is_floating(arrow_type)
        or arrow_types.is_decimal(arrow_type)
    ):
        return (
            np.asarray(column.cast("float64").to_numpy())
            if column.null_count or arrow_types.is_decimal(arrow_type)  # which would be Python objects
            else np.asarray(column.to_numpy())
        )
    return Other(str(arrow_type), len(column))


READERS: dict[str, Callable[[Path], Columns]] = {
    ".csv": _table,
    ".tsv": _table,
    ".npz": _npz,
    ".npy": _npy,
    ".h5": _hdf5,
    ".hdf5": _hdf5,
    ".parquet": _parquet,
}
