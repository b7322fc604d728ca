"""Columns that share rows, `--shared-embedding user=friend/follower`: an id means the same row in each of them.

Owns the flag, and which column's rows each has. How an id becomes that of a row is `id_columns.py`'s.
"""

from __future__ import annotations

from typing import Any, Collection, Mapping, Sequence

from mxtrain.core.errors import DataError, UsageError, nearest
from mxtrain.data.arrays.array_fields import Input

FLAG = "--shared-embedding"
EXAMPLE = "as in user=friend/follower,item=last_item"


def parse(text: str) -> dict[str, str]:
    """Return the column whose rows each column has, by its name, of those that share; UsageError says what is wrong."""
    found: dict[str, str] = {}
    owners: set[str] = set()
    for part in filter(None, text.split(",")):
        owner, equals, others = (each.strip() for each in part.partition("="))
        names = [name.strip() for name in others.split("/")]
        if not owner or not equals or not all(names):
            raise UsageError(f"{FLAG} {text}: {part} names no columns that share rows; give them {EXAMPLE}")
        owners.add(owner)
        for name in names:
            if name == owner or name in found:
                raise UsageError(f"{FLAG} {text}: names {name} twice; name each column once")
            found[name] = owner
    chained = next((name for name in found if name in owners), None)
    if chained is not None:
        raise UsageError(
            f"{FLAG} {text}: {chained} has the rows of {found[chained]}; name what shares them there, "
            f"{found[chained]}={chained}/..."
        )
    return found


def of_columns(text: str, columns: Collection[str]) -> dict[str, str]:
    """Return what `parse` does; UsageError where one of them is none of these columns of ids."""
    found = parse(text)
    odd = next((name for name in (*found.values(), *found) if name not in columns), None)
    if odd is not None:
        raise UsageError(
            f"{FLAG} {text}: {odd} is no column of ids{nearest(odd, columns)} ({', '.join(columns)}); --categories and "
            "--lists say which are"
        )
    return found


def of_inputs(inputs: Sequence[Input]) -> dict[str, str]:
    """Return the column whose rows each column has, of the arrays that a net takes."""
    return {
        name: owner
        for each in inputs
        for name, owner in zip(each.names or (each.name,), each.rows_of)
        if name != owner
    }


def described(names: Sequence[str], shared: Mapping[str, str]) -> tuple[str, ...]:
    """Return `Input.rows_of` of columns."""
    owners = tuple(shared.get(name, name) for name in names)
    return () if owners == tuple(names) else owners


def check(text: str, inputs: Sequence[Input], dataset: Any) -> None:
    """Refuse a flag that says something else than a data set, which was packed before, has."""
    columns = [name for each in inputs if each.holds_ids for name in each.names or (each.name,)]
    if text and of_columns(text, columns) != of_inputs(inputs):
        raise DataError(
            f"{dataset.path}: its columns do not share rows as {FLAG} {text} says; leave the flag out, or pack with it"
        )
