"""Roles of the columns of a table with ids: which are categories, lists and numbers, and what is to be predicted.

Owns the choice, by flags or as a net has it already, and its refusals. What becomes of a column is `id_tables.py`'s.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Mapping, NamedTuple, Sequence

from mxtrain.core import plain_text
from mxtrain.core.errors import DataError, UsageError, nearest
from mxtrain.data.arrays.array_fields import Input
from mxtrain.data.arrays.array_sets import TARGETS
from mxtrain.data.arrays.table_selection import Selection, is_index
from mxtrain.data.ids import shared_rows, text_tables
from mxtrain.data.ids.id_columns import IdColumn, Lists
from mxtrain.data.ids.id_files import IdFile
from mxtrain.data.ids.text_columns import TextColumn
from mxtrain.data.labels import sample_weights

IDS, NUMBERS = "ids", "numbers"  # the names of arrays
ROWS_LOOKED_AT = 1000  # to tell words from numbers in a column of text
_ID, _LIST, _NUMBER = "id", "list", "number"


class Roles(NamedTuple):
    """Names of the columns that are used, by what becomes of them."""

    targets: tuple[str, ...]
    weight: tuple[str, ...]
    categories: tuple[str, ...]
    lists: tuple[str, ...]
    numbers: tuple[str, ...]
    shared: Mapping[str, str] = MappingProxyType({})  # the column whose rows another has, by its name


def of_selection(file: IdFile, selection: Selection) -> Roles:
    """Return what becomes of the columns of a training set, without what is to be predicted."""
    if selection.inputs and selection.exclude:
        raise UsageError("--inputs and --exclude both choose columns; leave one of them out")
    named = {
        flag: _named(file, flag, getattr(selection, flag.strip("-")))
        for flag in ("--categories", "--lists", "--inputs", "--exclude")
    }
    targets, weight = labels(file, selection, is_needed=True)
    left_out = (*targets, *weight, *named["--exclude"])
    chosen = named["--inputs"] or tuple(
        name for name in file.names if name not in left_out and not is_index(name)
    )
    for flag in ("--categories", "--lists", "--inputs"):
        odd = next((name for name in named[flag] if name in left_out or name not in chosen), None)
        if odd is not None:
            why = "is to be predicted" if odd in targets else "is not among the columns that the net takes"
            raise UsageError(f"{flag} {','.join(named[flag])}: {odd} {why}; leave it out of one of them")
    both = set(named["--categories"]) & set(named["--lists"])
    if both:
        raise UsageError(f"--categories and --lists both name {min(both)}; leave it out of one of them")
    uses = _uses(file, selection, chosen, named["--categories"], named["--lists"])
    categories, lists, numbers = (
        tuple(name for name in chosen if uses[name] == use) for use in (_ID, _LIST, _NUMBER)
    )
    shared = shared_rows.of_columns(selection.shared_embedding, (*categories, *lists))
    roles = Roles(targets, weight, categories, lists, numbers, shared)
    if not roles.categories and not roles.lists:
        raise UsageError(
            f"{file.path}: no column is one of ids; name some by --categories or --lists (it has {_listed(chosen)}), "
            "or give --task arrays"
        )
    odd = next((name for name in roles.lists if name in (IDS, NUMBERS)), None)
    if odd is not None:
        raise UsageError(
            f"{file.path}: a column of lists is called {odd}, as an array of others is; rename it"
        )
    return roles


def _uses(
    file: IdFile, selection: Selection, chosen: Sequence[str], categories: Sequence[str], lists: Sequence[str]
) -> dict[str, str]:
    """Return what each column is: an id, a list of ids or a number. Where no flag says so, words are ids."""
    piece = next(file.pieces(), None)
    if piece is None:
        raise DataError(f"{file.path} holds no samples")
    is_criteo = selection.column_names == text_tables.CRITEO and not categories
    found = {}
    for name in chosen:
        if name in lists:
            found[name] = _LIST
        elif name in categories or (is_criteo and name.startswith("C")):
            found[name] = _ID
        else:
            found[name] = _NUMBER if is_criteo else _use_of(piece.columns[name])
    return found


def _use_of(column: IdColumn) -> str:
    if isinstance(column, Lists):
        return _LIST
    if not isinstance(column, TextColumn):
        return _NUMBER
    rows = range(min(len(column), ROWS_LOOKED_AT))
    texts = filter(None, map(column.text, rows))
    return _ID if any(plain_text.parse_number(text) is None for text in texts) else _NUMBER


def of_inputs(file: IdFile, inputs: Sequence[Input]) -> Roles:
    """Return the columns that a net takes; DataError where the file lacks one."""
    by_name = {each.name: each for each in inputs}
    categories = by_name[IDS].names if IDS in by_name else ()
    numbers = tuple(each.column for each in by_name[NUMBERS].encodings) if NUMBERS in by_name else ()
    lists = tuple(each.name for each in inputs if each.varies)
    missing = next((name for name in (*categories, *numbers, *lists) if name not in file.names), None)
    if missing is not None:
        raise DataError(
            f"{file.path}: has no column called {missing}, which the net takes (it has {_listed(file.names)})"
        )
    return Roles((), (), categories, lists, numbers, shared_rows.of_inputs(inputs))


def labels(file: IdFile, selection: Selection, is_needed: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns that are to be predicted, and that of weights; what is only evaluated on may have none."""
    targets = _named(file, "--target", selection.target)
    if not targets:
        targets = tuple(name for name in TARGETS if name in file.names)[:1]
    if not targets:
        raise UsageError(
            f"{file.path}: what is to be predicted? give --target and names of its columns ({_listed(file.names)})"
        )
    name = selection.sample_weight
    if not name or (name not in file.names and not is_needed):
        return targets, ()
    weight = _named(file, sample_weights.FLAG, name)
    if weight[0] in targets:
        raise UsageError(f"{sample_weights.FLAG} {name}: is to be predicted; give another column")
    return targets, weight


def _named(file: IdFile, flag: str, text: str) -> tuple[str, ...]:
    """Return the columns that a flag names, joined by commas."""
    names = (text,) if text in file.names else tuple(name.strip() for name in text.split(","))
    if not text:
        return ()
    for name in names:
        if name not in file.names:
            raise UsageError(
                f"{flag} {text}: {file.path} has no column {name}{nearest(name, file.names)} (it has "
                f"{_listed(file.names)})"
            )
    if len(set(names)) < len(names):
        raise UsageError(f"{flag} {text}: names a column twice")
    return names


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
