"""The source of tables and files of arrays: a sample for each row, with what is to be predicted for its label.

Which columns are which is `mxtrain.data.arrays.tables`'s. A row with a number that is missing or not finite is a bad
item.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from mxtrain.data.arrays import array_fields, tables
from mxtrain.data.arrays.table_selection import Selection
from mxtrain.data.arrays.tables import Table
from mxtrain.data.fields import Array
from mxtrain.data.ids import id_tables
from mxtrain.data.ids.growing_columns import FileColumn, MemoryColumn
from mxtrain.data.sources.item import BadItem, Item, Label, MadeItems, Source
from mxtrain.data.sources.labels import refuse_cut


def read_arrays(path: Path, columns: Selection) -> Source:
    """Read a table or a file of arrays, of the columns that are selected."""
    return _source(path, tables.read(path, columns))


def read_ids(path: Path, columns: Selection, scratch: Path | None = None) -> Source:
    """Read a table or a file of columns with ids, which lie in nameless files in `scratch`, if there is one."""
    new_column = functools.partial(FileColumn, scratch) if scratch else MemoryColumn
    table = id_tables.read(path, columns, new_column=new_column)
    return _source(path, table)._replace(numbers=functools.partial(_numbers, table))


def _source(path: Path, table: Table) -> Source:
    refuse_cut(table.labels, path)
    bad = set(table.bad())

    def read(item: Item) -> bytes:
        if item.location in bad:
            raise BadItem(table.problem(item.location) or "")
        return array_fields.encode(table.layout.inputs, table.sample(item.location))

    items = MadeItems(len(table), functools.partial(_item, path.name, table, table.row_number(0)))
    return Source(items, read, table.class_names, files=[path], layout=table.layout)


def _item(name: str, table: Table, first: int, row: int) -> Item:
    label = _label(table.labels[row].tolist(), table.class_names is not None)
    return Item(f"{name}:{first + row}", label, row)


def _numbers(table: Table, name: str, items: Sequence[Item]) -> Array:
    found: Array = table.columns[name][np.array([item.location for item in items])]
    return found


def _label(label: Any, is_class: bool) -> Label:
    if isinstance(label, list):
        return tuple(label)
    return int(label) if is_class and label == label else float(label)  # NaN, of an empty cell, is no class
