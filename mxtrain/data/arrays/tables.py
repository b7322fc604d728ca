"""Tables: the samples of a file, as the arrays that a net takes and the labels that are to be predicted.

Owns the shapes and types in which arrays are kept, and what is wrong with a sample. Does not read files
(`table_files.py`), choose columns (`table_selection.py`), nor make labels of targets (`table_targets.py`).
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays import array_fields, array_sets, encodings, statistics, table_files, table_targets
from mxtrain.data.arrays.array_fields import Input, Layout
from mxtrain.data.arrays.array_sets import ONLY, ArrayRecords
from mxtrain.data.arrays.encodings import Encoding
from mxtrain.data.arrays.table_columns import Column, Columns, Ragged, listed
from mxtrain.data.arrays.table_selection import (
    NO_SELECTION,
    Selection,
    chosen_columns,
    columns_named,
    encodings_of,
    weight_column,
)
from mxtrain.data.fields import Arrays
from mxtrain.data.records.recordio import Floats

SUFFIXES = tuple(table_files.READERS)
_AT_ONCE = 4096
_UNFILLED = "is empty, or no finite number"
_FINEST = 1e-5  # of a column's range, which float32 has to tell apart


class Table(NamedTuple):
    """The samples of a file, by their rows from 0."""

    path: Path
    layout: Layout  # without statistics
    columns: Columns  # of the inputs, by their names
    labels: Floats  # (n,), or (n, k) with k targets, or one less and the weight
    class_names: list[str] | None
    num_header_lines: int = 1  # of a text

    def __len__(self) -> int:
        return len(self.labels)

    def row(self, position: int) -> str:
        """Return the name of a sample for messages; lines of a table count from 1, and the first has the names."""
        return f"{'row' if self._is_text else 'sample'} {self.row_number(position)}"

    def row_number(self, position: int) -> int:
        """Return the number of a sample in its file."""
        return position + 1 + self.num_header_lines if self._is_text else position

    @property
    def _is_text(self) -> bool:
        return self.path.suffix.lower() in (".csv", ".tsv")

    def sample(self, position: int) -> Arrays:
        """Return the arrays of a sample in the types of records."""
        return {
            each.name: np.asarray(self.columns[each.name][position]).astype(each.dtype)
            for each in self.layout.inputs
        }

    def problem(self, position: int) -> str | None:
        """Return why no net can take a sample, or learn from it; None if one can."""
        is_finite = np.isfinite(self.labels[position])
        if self.layout.weight and not is_finite[-1]:
            return f"its weight, {self.layout.weight}, is missing, or is no finite number"
        if not is_finite.all():
            return "what is to be predicted is missing, or is no finite number of float32"
        # As they were read: a number beyond the type of records would be infinite there.
        values = {each.name: np.asarray(self.columns[each.name][position]) for each in self.layout.inputs}
        problem = array_fields.refused(self.layout.inputs, values)
        if problem and self._is_text:  # whose empty cells, and words among numbers, were read as NaN
            return problem.replace(statistics.NOT_FINITE, _UNFILLED)
        return problem

    def bad(self) -> list[int]:
        """Return the samples that have a `problem`; only those are looked at that may have one."""
        inputs = [each for each in self.layout.inputs if not each.holds_ids]
        columns = [self.columns[each.name] for each in inputs]
        if all(map(_is_whole, inputs, columns)):
            may_be_bad = np.any(list(map(statistics.rows_refused, (self.labels, *columns))), axis=0)
        else:
            may_be_bad = np.ones(len(self), bool)
        return [position for position in np.flatnonzero(may_be_bad).tolist() if self.problem(position)]


def read(path: Path, selection: Selection = NO_SELECTION, like: Sequence[Input] = ()) -> Table:
    """Read a file; features are made as those of `like`, the inputs of a net or a training set, if it has some."""
    if path.suffix.lower() not in table_files.READERS:
        raise UsageError(f"{path}: is no table of arrays by its name ({', '.join(SUFFIXES)})")
    return of_columns(path, table_files.read(path), selection, like)


def of_columns(
    path: Path, columns: Columns, selection: Selection = NO_SELECTION, like: Sequence[Input] = ()
) -> Table:
    """Return the samples that columns hold, as `read` does those of a file; `path` is what messages call them."""
    encodings.check_missing(selection.missing)
    target = selection.target
    targets = (
        columns_named("--target", target, path, columns)
        if target
        else table_targets.default_targets(path, columns)
    )
    weight = weight_column(selection.sample_weight, path, columns, targets, is_needed=not like)
    known = next((each for each in like if each.names), None)
    if known is not None:
        others = [each.name for each in like if not each.names and each.name in columns]
        found = {name: columns[name] for name in others}
        _, layout_inputs = _inputs(path, found) if found else ({}, ())
        found = {known.name: _column_of(path, columns, known, is_only=False), **found}
        layout_inputs = (known._replace(statistics=None), *layout_inputs)
    else:
        chosen = chosen_columns(path, columns, [*targets, *weight], selection)
        found, layout_inputs = _inputs(path, chosen, encodings_of(path, chosen, selection))
    labels, class_names, names = table_targets.labels_of(path, {name: columns[name] for name in targets})
    if weight:
        labels = table_targets.with_weights(path, weight[0], columns[weight[0]], labels)
    return Table(path, Layout(layout_inputs, names, *weight), found, labels, class_names)


def open_records(path: Path, selection: Selection = NO_SELECTION, like: Sequence[Input] = ()) -> ArrayRecords:
    """Return the samples of a file in memory; DataError names the first that no net can take."""
    return records_of(read(path, selection, like))


def records_of(table: Table) -> ArrayRecords:
    """Return the samples of a table as records; DataError names the first that no net can take."""
    refuse_bad(table)
    samples = [table.sample(position) for position in range(len(table))]
    return ArrayRecords(table.path, table.layout, samples, table.labels, table.class_names, table.row)


def refuse_bad(table: Table) -> None:
    """Raise DataError where samples have a `problem`."""
    bad = table.bad()
    if bad:
        problem = table.problem(bad[0]) or ""
        fill = ", fill them by --missing mean" if problem.endswith((_UNFILLED, statistics.NOT_FINITE)) else ""
        is_file = table.path.suffix.lower() in table_files.READERS
        pack = ", or pack the file with --skip-bad" if is_file else ""
        raise DataError(
            f"{table.path}: {table.row(bad[0])}: {problem}; {len(bad)} such: mend them{fill}{pack}"
        )


def samples(path: Path, inputs: Sequence[Input]) -> list[tuple[str, Arrays]]:
    """Return the arrays of all samples of a file as a net takes them, by the names of the rows; targets are not needed.

    Single numbers are found by the names of their columns, or by their places where the net knows none.
    """
    if path.suffix.lower() not in table_files.READERS:
        raise DataError(f"{path}: is no table or file of arrays by its name ({', '.join(SUFFIXES)})")
    return samples_of(path, table_files.read(path), inputs)


def samples_of(path: Path, columns: Columns, inputs: Sequence[Input]) -> list[tuple[str, Arrays]]:
    """Return the arrays of all samples that columns hold, as `samples` does those of a file."""
    found = {each.name: _column_of(path, columns, each, is_only=len(inputs) == 1) for each in inputs}
    table = Table(
        path, Layout(tuple(inputs)), found, np.zeros(len(next(iter(columns.values()))), np.float32), None
    )
    for position in table.bad():
        raise DataError(f"{path}: {table.row(position)}: {table.problem(position)}")
    return [
        (f"{path}:{table.row_number(position)}", {name: found[name][position] for name in found})
        for position in range(len(table))
    ]


def _column_of(path: Path, columns: Columns, wanted: Input, is_only: bool) -> Column:
    """Return the array that a net takes, of the columns that it is made of."""
    made_of = wanted.encodings or tuple(map(Encoding, wanted.names or (wanted.name,)))
    if is_only and wanted.name not in columns and not wanted.names and len(columns) == wanted.num_features:
        made_of = tuple(map(Encoding, columns))
    missing = [each.column for each in made_of if each.column not in columns]
    if missing:
        raise DataError(
            f"{path}: has no column called {missing[0]}, which the net takes (it has {listed(columns)})"
        )
    if wanted.names or made_of != (Encoding(wanted.name),):
        return np.concatenate([each.features(path, columns[each.column]) for each in made_of], axis=1)
    problem = encodings.why_no_numbers(wanted.name, columns[wanted.name])
    if problem:
        raise DataError(f"{path}: {problem}")
    return columns[wanted.name]


def _inputs(
    path: Path, columns: Columns, encoded: Mapping[str, Encoding] = MappingProxyType({})
) -> tuple[Columns, tuple[Input, ...]]:
    """Return columns as the arrays of samples: those of single values, which are `encoded`, become one, `data`."""
    single = list(encoded)
    found = {name: column for name, column in columns.items() if name not in encoded}
    if single:
        if ONLY in found:
            raise DataError(
                f"{path}: has single numbers ({', '.join(single[:5])}), which become the array {ONLY}, and another one "
                "of that name; rename that"
            )
        features = [each.features(path, columns[name]) for name, each in encoded.items()]
        found = {ONLY: np.concatenate(features, axis=1), **found}
    names = sum((each.names for each in encoded.values()), ())
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise DataError(f"{path}: two features would be called {twice}; rename that column")
    made_of = () if all(each.is_plain for each in encoded.values()) else tuple(encoded.values())
    described = []
    for name, column in found.items():
        if isinstance(column, Ragged):
            shapes = {(length, *column.shape_inside) for length in {len(row) for row in column} - {0}}
        else:
            shapes = {tuple(column.shape[1:])}
        if column.dtype.kind not in "biuf" or not shapes:
            raise DataError(
                f"{path}: {name} holds {column.dtype if shapes else 'nothing'}, not numbers; leave it out by --exclude"
            )
        described.append(
            array_sets.input_of_shapes(str(path), name, shapes)._replace(
                names=names if name == ONLY and single else (),
                dtype=dtype_of(column),
                encodings=made_of if name == ONLY and single else (),
            )
        )
    return found, tuple(described)


def _is_whole(wanted: Input, column: Column) -> bool:
    """Return whether a column is one array of numbers, with what a net takes in each row."""
    is_numbers = isinstance(column, np.ndarray) and column.dtype.kind in "biuf"
    return is_numbers and not wanted.varies and column.shape[1:] == wanted.shape


def dtype_of(column: Column) -> str:
    """Return the type in which records keep a column: its own, or float32 where that is fine enough."""
    own = np.dtype(column.dtype).newbyteorder("=")
    if own.name in array_fields.DTYPES and own.name != "float64":
        return str(own.name)
    if own.name == "bool":
        return "uint8"
    return dtype_of_chunks(_chunks(column))


def dtype_of_chunks(chunks: Iterable[npt.NDArray[Any]]) -> str:
    """Return the type in which records keep numbers, of which some rows come at a time."""
    extremes = []
    for chunk in chunks:
        finite = np.where(np.isfinite(chunk), chunk, np.nan)
        extremes += [np.fmin.reduce(finite, axis=0), np.fmax.reduce(finite, axis=0)]
    least, most = np.fmin.reduce(extremes, axis=0), np.fmax.reduce(extremes, axis=0)
    largest, spread = np.fmax(np.abs(least), np.abs(most)), most - least
    # Numbers that are all alike lose nothing that a net could use.
    is_coarse = (largest * np.finfo(np.float32).eps > _FINEST * spread) & (spread > 0)
    return "float64" if is_coarse.any() else "float32"


def _chunks(column: Column) -> Iterator[npt.NDArray[np.float64]]:
    """Yield the numbers of a column in rows of its features."""
    if isinstance(column, Ragged):
        width = column.shape_inside[-1] if column.shape_inside else 1
        yield from (np.asarray(row, np.float64).reshape(-1, width) for row in column if len(row))
        return
    for start in range(0, len(column), _AT_ONCE):
        chunk = np.asarray(column[start : start + _AT_ONCE], np.float64)
        yield chunk.reshape(-1, chunk.shape[-1])
