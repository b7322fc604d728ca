"""Tables with ids: the samples of a file as ids, lists of ids and numbers, with the labels that are to be predicted.

Owns how columns become the arrays of samples: `ids` of all columns of categories, `numbers`, and an array of each
column of lists. Does not read files (`id_files.py`), choose columns (`column_roles.py`), nor say what a cell holds
(`id_columns.py`).
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, Mapping, Sequence

import numpy as np

from mxtrain.core.errors import DataError, UsageError, nearest
from mxtrain.data.arrays import array_fields, encodings, statistics, table_targets, tables
from mxtrain.data.arrays.array_fields import Input, Layout
from mxtrain.data.arrays.array_sets import ArrayRecords
from mxtrain.data.arrays.encodings import Encoding
from mxtrain.data.arrays.table_columns import Columns, Ragged
from mxtrain.data.arrays.table_selection import LOG, Selection
from mxtrain.data.arrays.tables import Table
from mxtrain.data.fields import Array
from mxtrain.data.ids import column_roles, id_columns, id_files, shared_rows, text_columns
from mxtrain.data.ids.column_roles import IDS, NUMBERS, Roles
from mxtrain.data.ids.growing_columns import GrowingColumn, MemoryColumn, NewColumn
from mxtrain.data.ids.id_columns import IdColumn, Lists, Piece
from mxtrain.data.ids.id_files import IdFile

SUFFIXES = id_files.SUFFIXES


def open_records(path: Path, selection: Selection, like: Sequence[Input] = ()) -> ArrayRecords:
    """Return the samples of a file in memory, as those of `like`, the inputs of a net, where it has some.

    DataError names the first row that no net can take.
    """
    return records_of(read(path, selection, like))


def records_of(table: Table) -> ArrayRecords:
    """Return the samples of a table as records; DataError names the first row that no net can take."""
    tables.refuse_bad(table)
    return ArrayRecords(
        table.path, table.layout, _Samples(table), table.labels, None, table.row, dict(table.columns)
    )


class SampleArrays(Dict[str, Array]):
    """The arrays of one sample, as records hold them."""


def samples(path: Path, inputs: Sequence[Input], selection: Selection) -> list[tuple[str, SampleArrays]]:
    """Return the arrays of all samples of a file, by the names of the rows; targets are not needed."""
    return _samples_of(read(path, selection, inputs, is_labelled=False))


def samples_of(
    path: Path, columns: Columns, inputs: Sequence[Input], selection: Selection
) -> list[tuple[str, SampleArrays]]:
    """Return the arrays of all samples that columns hold, as `samples` does those of a file."""
    return _samples_of(of_columns(path, columns, selection, inputs, is_labelled=False))


def _samples_of(table: Table) -> list[tuple[str, SampleArrays]]:
    for position in table.bad():
        raise DataError(f"{table.path}: {table.row(position)}: {table.problem(position)}")
    return [
        (f"{table.path}:{table.row_number(row)}", SampleArrays(table.sample(row)))
        for row in range(len(table))
    ]


def sample(values: Mapping[str, Any], inputs: Sequence[Input], selection: Selection) -> SampleArrays:
    """Return the arrays of one sample, whose values are by the names of columns; DataError where one does not fit."""
    columns = {str(name): _of_value(value) for name, value in values.items()}
    file = IdFile(
        Path("this sample"), tuple(columns), lambda: iter([Piece(columns, lambda row: "this sample")])
    )
    return SampleArrays(_table(file, column_roles.of_inputs(file, inputs), selection, inputs).sample(0))


def layout_of(dataset: Any) -> Layout:
    """Return the arrays of a training set, with the statistics of its numbers; DataError where it has no ids."""
    if dataset.files:
        layout = array_fields.read_sidecars(dataset.files)
    elif getattr(dataset, "columns", None):
        layout = dataset.layout
        measured = [_measured(each, dataset.columns[each.name]) for each in layout.inputs]
        layout = layout._replace(inputs=tuple(measured))
    else:
        raise DataError(f"{dataset.path}: has no columns; give a table, or a .rec that is packed --from ids")
    if not any(each.holds_ids for each in layout.inputs):
        raise DataError(f"{dataset.path}: holds no ids; give --task arrays, or pack it --from ids")
    return layout


def _measured(of: Input, column: Any) -> Input:
    if of.holds_ids:
        return of
    chunks = functools.partial(_chunks, column)
    return of._replace(statistics=statistics.of_chunks(chunks, of.num_features))


def _chunks(column: Array) -> Iterator[Array]:
    for start in range(0, len(column), array_fields.MOST_AT_ONCE // column.shape[1]):
        yield column[start : start + array_fields.MOST_AT_ONCE // column.shape[1]]


class _Samples(Sequence[Any]):
    """The arrays of each sample of a table, made as they are read."""

    def __init__(self, table: Table):
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, position: Any) -> Any:
        return self._table.sample(position)


def read(
    path: Path,
    selection: Selection,
    like: Sequence[Input] = (),
    is_labelled: bool = True,
    new_column: NewColumn = MemoryColumn,
) -> Table:
    """Read a file; its samples are made as those of `like`, where it has some, else as the selection says.

    Args:
        path: of a table.
        selection: the flags that choose its columns.
        like: the inputs of a net, or of a training set.
        is_labelled: whether there has to be something that is to be predicted.
        new_column: makes what holds a column as it is read.

    Returns:
        the samples; UsageError and DataError say what is wrong with the selection, or with the file.
    """
    return _of_file(
        id_files.open_file(path, selection.column_names), selection, like, is_labelled, new_column
    )


def of_columns(
    path: Path,
    columns: Columns,
    selection: Selection,
    like: Sequence[Input] = (),
    is_labelled: bool = True,
) -> Table:
    """Return the samples that columns hold, as `read` does those of a file; `path` is what messages call them."""
    if selection.column_names:
        raise UsageError(
            f"--column-names {selection.column_names}: {path} has names of its own; leave it out"
        )
    return _of_file(id_files.of_columns(path, columns), selection, like, is_labelled)


def _of_file(
    file: IdFile,
    selection: Selection,
    like: Sequence[Input],
    is_labelled: bool,
    new_column: NewColumn = MemoryColumn,
) -> Table:
    encodings.check_missing(selection.missing)
    if len(selection.list_separator) != 1 or not selection.list_separator.isascii():
        raise UsageError(f"--list-separator {selection.list_separator!r}: give one character")
    roles = column_roles.of_inputs(file, like) if like else column_roles.of_selection(file, selection)
    if is_labelled and like:
        targets, weight = column_roles.labels(file, selection, is_needed=False)
        roles = roles._replace(targets=targets, weight=weight)
    return _table(file, roles, selection, like, new_column)


def _table(
    file: IdFile,
    roles: Roles,
    selection: Selection,
    like: Sequence[Input],
    new_column: NewColumn = MemoryColumn,
) -> Table:
    """Read all rows of a file."""
    length = next((each.shape[0] for each in like if each.varies), selection.list_length)
    of_piece = functools.partial(_arrays, roles=roles, separator=selection.list_separator, length=length)
    columns = _joined(map(of_piece, file.pieces()), new_column)
    if not len(columns.get(_LABELS, ())):
        raise DataError(f"{file.path} holds no samples")
    label_columns, numbers = columns.pop(_LABELS), columns.pop(NUMBERS)
    names = (*roles.targets, *roles.weight)
    if roles.targets:
        by_name = dict(zip(names, label_columns.T))
        labels, _, _ = table_targets.labels_of(file.path, {name: by_name[name] for name in roles.targets})
        if roles.weight:
            labels = table_targets.with_weights(file.path, roles.weight[0], by_name[roles.weight[0]], labels)
    else:
        labels = np.zeros(len(label_columns), np.float32)
    inputs = []
    if roles.categories:
        rows_of = shared_rows.described(roles.categories, roles.shared)
        of_ids = Input(IDS, (len(roles.categories),), array_fields.OF_IDS, names=roles.categories)
        inputs.append(of_ids._replace(rows_of=rows_of))
    if roles.numbers:
        of_numbers = _of_numbers(file, roles.numbers, numbers, selection, like)
        columns[NUMBERS] = _features(file.path, of_numbers, numbers, bool(like), new_column)
        inputs.append(of_numbers._replace(dtype=columns[NUMBERS].dtype.name, statistics=None))
    inputs += [
        Input(
            name,
            (length,),
            array_fields.OF_IDS,
            varies=True,
            rows_of=shared_rows.described([name], roles.shared),
        )
        for name in roles.lists
    ]
    layout = Layout(tuple(inputs), roles.targets, *roles.weight)
    return Table(file.path, layout, columns, labels, None, file.num_header_lines)


def _features(path: Path, of: Input, numbers: Array, is_known: bool, new_column: NewColumn) -> Array:
    """Return what columns of numbers become, in the type of records; that of `of`, where it is known."""

    def chunks() -> Iterator[Array]:
        for chunk in _chunks(numbers):
            made = [each.features(path, column) for each, column in zip(of.encodings, chunk.T)]
            yield np.concatenate(made, axis=1)

    dtype = of.dtype if is_known else tables.dtype_of_chunks(chunks())
    found = new_column()
    for chunk in chunks():
        found.append(chunk.astype(dtype))
    return found.finished()


_LABELS = ""  # beside the names of arrays


def _arrays(piece: Piece, roles: Roles, separator: str, length: int) -> Columns:
    """Return the arrays of some rows, their numbers and labels as they are in the file."""
    num_rows = len(next(iter(piece.columns.values())))

    def side_by_side(columns: Sequence[Array], dtype: type) -> Array:
        return np.stack(columns, axis=1) if columns else np.zeros((num_rows, 0), dtype)

    labels = [id_columns.numbers(piece, name) for name in (*roles.targets, *roles.weight)]
    numbers = [id_columns.numbers(piece, name, f", or give --categories {name}") for name in roles.numbers]
    found: Columns = {_LABELS: side_by_side(labels, np.float64), NUMBERS: side_by_side(numbers, np.float64)}
    if roles.categories:
        of_names = [id_columns.ids(piece, name, roles.shared.get(name, name)) for name in roles.categories]
        found[IDS] = side_by_side(of_names, np.int64)
    for name in roles.lists:
        of_name = id_columns.lists(piece, name, roles.shared.get(name, name), separator)
        found[name] = _last(*of_name, length)
    return found


def _last(ids: Array, lengths: Array, most: int) -> Ragged:
    """Return lists of at most so many ids: the last ones."""
    from_end = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(ids))
    return Ragged(ids[from_end <= most], np.minimum(lengths, most))


def _joined(pieces: Iterable[Columns], new_column: NewColumn) -> Columns:
    """Return columns of pieces as one; labels and lengths of lists are in memory anyway."""
    growing: dict[str, GrowingColumn] = {}
    lengths: dict[str, MemoryColumn] = {}
    for piece in pieces:
        for name, column in piece.items():
            if name not in growing:
                growing[name] = MemoryColumn() if name == _LABELS else new_column()
            if isinstance(column, Ragged):
                lengths.setdefault(name, MemoryColumn()).append(column.lengths)
                column = column.rows
            growing[name].append(column)
    return {
        name: Ragged(each.finished(), lengths[name].finished()) if name in lengths else each.finished()
        for name, each in growing.items()
    }


def _of_numbers(
    file: IdFile, names: Sequence[str], numbers: Array, selection: Selection, like: Sequence[Input]
) -> Input:
    """Return the array that columns of numbers become."""
    known = next((each for each in like if each.name == NUMBERS), None)
    if known is not None:
        return known
    logs = [name.strip() for name in selection.log_columns.split(",")] if selection.log_columns else []
    odd = next((name for name in logs if name not in names), None)
    if odd is not None:
        raise UsageError(
            f"{LOG} {selection.log_columns}: {odd} is no column of numbers{nearest(odd, names)} "
            f"(those are {', '.join(names)})"
        )
    found: list[Encoding] = [
        encodings.of_numbers(file.path, name, column, selection.missing, name in logs)
        for name, column in zip(names, numbers.T)
    ]
    features = sum((each.names for each in found), ())
    return Input(NUMBERS, (len(features),), names=features, encodings=tuple(found))


def _of_value(value: Any) -> IdColumn:
    """Return a value of a program as a column of one row."""
    if value is None:
        return np.array([np.nan])
    if isinstance(value, str):
        return text_columns.of_texts([value])
    if np.ndim(value) == 0:
        return np.asarray(value).reshape(1)
    items = list(value)
    are_texts = all(isinstance(item, str) for item in items) and items
    column = text_columns.of_texts(items) if are_texts else np.array(items, None if items else np.int64)
    return Lists(column, np.array([len(items)], np.int64))
