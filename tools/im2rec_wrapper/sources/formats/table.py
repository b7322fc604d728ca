"""The source of tables and files of arrays: a sample for each row, with what is to be predicted for its label.

Which columns are which is `mxtrain.data.arrays.tables`'s. A row with a number that is missing or not finite is a bad
item.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mxtrain.data.arrays import array_fields, tables
from mxtrain.data.arrays.table_selection import Selection
from mxtrain.data.arrays.tables import Table
from mxtrain.data.ids import id_tables

from ..item import BadItem, Item, Label, Source
from ..labels import refuse_cut


def read_arrays(path: Path, columns: Selection) -> Source:
    """Read a table or a file of arrays, of the columns that are selected."""
    return _source(path, tables.read(path, columns))


def read_ids(path: Path, columns: Selection) -> Source:
    """Read a table or a file of columns with ids."""
    return _source(path, id_tables.read(path, columns))


def _source(path: Path, table: Table) -> Source:
    refuse_cut(table.labels, path)
    items = [
        Item(
            f"{path.name}:{table.row_number(position)}",
            _label(label, table.class_names is not None),
            position,
        )
        for position, label in enumerate(table.labels.tolist())
    ]

    def read(item: Item) -> bytes:
        problem = table.problem(item.location)
        if problem:
            raise BadItem(problem)
        return array_fields.encode(table.layout.inputs, table.sample(item.location))

    return Source(items, read, table.class_names, files=[path], layout=table.layout)


def _label(label: Any, is_class: bool) -> Label:
    if isinstance(label, list):
        return tuple(label)
    return int(label) if is_class and label == label else float(label)  # NaN, of an empty cell, is no class
