"""The columns of a table that flags choose: what a net takes, what is to be predicted, and how much a sample counts.

Owns the choice and its refusals; what becomes of a column that is chosen is `tables.py`'s and `encodings.py`'s.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Sequence

from mxtrain.core.errors import DataError, UsageError, nearest
from mxtrain.data.arrays import encodings
from mxtrain.data.arrays.encodings import Encoding
from mxtrain.data.arrays.table_columns import Columns, Other, Ragged, Words, listed
from mxtrain.data.labels import sample_weights

LOG = "--log-columns"


class Selection(NamedTuple):
    """The flags that choose columns of a table, by their names joined by commas, and say what becomes of them."""

    target: str = ""  # found out where it is empty
    inputs: str = ""  # all but the target and an index where it is empty
    exclude: str = ""
    categories: str = ""
    missing: str = encodings.REFUSE
    sample_weight: str = ""  # no sample counts more than another where it is empty
    log_columns: str = ""
    lists: str = ""  # of ids
    list_separator: str = "|"
    list_length: int = 100  # of which the last ones count, at most
    column_names: str = ""  # of a text without a line of them
    shared_embedding: str = ""  # of ids: columns that have rows of others


NO_SELECTION = Selection()
OF_IDS = (
    "lists",
    "list_separator",
    "list_length",
    "column_names",
    "shared_embedding",
)  # of tables with ids alone


def of_flags(flags: Any) -> Selection:
    """Return the selection of flags that are called as its fields are."""
    return Selection(*(getattr(flags, name) for name in Selection._fields))


def weight_column(
    name: str, path: Path, columns: Columns, targets: Sequence[str], is_needed: bool
) -> list[str]:
    """Return the column of weights, if a flag names one; what is only evaluated on may have none."""
    if not name or (name not in columns and not is_needed):
        return []
    if name in targets:
        raise UsageError(
            f"{sample_weights.FLAG} {name}: is to be predicted; give another column, or --target without it"
        )
    return columns_named(sample_weights.FLAG, name, path, columns)


def chosen_columns(path: Path, columns: Columns, targets: Sequence[str], selection: Selection) -> Columns:
    """Return the columns that a net is to take."""
    if selection.inputs and selection.exclude:
        raise UsageError("--inputs and --exclude both choose columns; leave one of them out")
    flag, text = ("--exclude", selection.exclude) if selection.exclude else ("--inputs", selection.inputs)
    named = columns_named(flag, text, path, columns) if text else []
    if selection.inputs:
        chosen = named
    else:
        chosen = [name for name in columns if name not in (*targets, *named) and not is_index(name)]
    of_target = next((name for name in named if name in targets), None)
    if of_target is not None:
        role = (
            "says how much a sample counts" if of_target == selection.sample_weight else "is to be predicted"
        )
        raise UsageError(f"{flag} {text}: {of_target} {role}; leave it out of one of them")
    if not chosen:
        raise DataError(f"{path}: holds no more than what is to be predicted ({', '.join(targets)})")
    return {name: columns[name] for name in chosen}


def is_index(name: str) -> bool:
    """Return whether a column is the index of rows that pandas writes beside its columns."""
    return not name or name.startswith("__index_level_")


def encodings_of(path: Path, columns: Columns, selection: Selection) -> dict[str, Encoding]:
    """Return what becomes of each column of single values."""
    of_categories = (
        columns_named("--categories", selection.categories, path, columns) if selection.categories else []
    )
    logs = columns_named(LOG, selection.log_columns, path, columns) if selection.log_columns else []
    odd = next((name for name in logs if name in of_categories), None)
    if odd is not None:
        raise UsageError(
            f"{LOG} {selection.log_columns}: {odd} holds categories; leave it out of one of them"
        )
    found = {}
    for name, column in columns.items():
        if name in of_categories:
            found[name] = encodings.of_categories(path, name, column)
        elif isinstance(column, (Words, Other)) or (not isinstance(column, Ragged) and column.ndim == 1):
            _refuse_words(path, columns, of_categories)
            found[name] = encodings.of_numbers(path, name, column, selection.missing, name in logs)
    return found


def _refuse_words(path: Path, columns: Columns, of_categories: Sequence[str]) -> None:
    """Refuse columns that are no numbers, all of them in one line."""
    problems = {
        name: encodings.why_no_numbers(name, column)
        for name, column in columns.items()
        if name not in of_categories
    }
    odd = [name for name, problem in problems.items() if problem]
    if odd:
        also = f"; so it is with {', '.join(odd[1:20])}" if odd[1:] else ""
        raise DataError(f"{path}: {problems[odd[0]]}{also}")


def columns_named(flag: str, text: str, path: Path, columns: Columns) -> list[str]:
    """Return the columns that a flag names: one whose own name has a comma in it, or several joined by commas."""
    found = [text] if text in columns else [name.strip() for name in text.split(",")]
    for name in found:
        if name not in columns:
            raise UsageError(
                f"{flag} {text}: {path} has no column {name}{nearest(name, columns)} (it has {listed(columns)})"
            )
    if len(set(found)) < len(found):
        raise UsageError(f"{flag} {text}: names a column twice")
    return found
