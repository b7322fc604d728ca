"""Implicit feedback: rows say what users have chosen, and beside each others are drawn that they have not.

Owns `--negatives`, and the data set with such rows. A drawn sample is the row with all that belongs to its item taken
from the first row of another one. Which item follows from seed, epoch and row (`loading/negatives.py`).
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

from mxtrain.core.errors import DataError, UsageError, nearest
from mxtrain.data.arrays import array_fields
from mxtrain.data.arrays.array_fields import Input
from mxtrain.data.arrays.table_columns import Ragged
from mxtrain.data.fields import Array
from mxtrain.data.ids import id_reader
from mxtrain.data.ids.column_roles import IDS
from mxtrain.data.interfaces import Record
from mxtrain.data.loading import negatives
from mxtrain.data.records.recordio import Floats, Ints

FLAG = "--negatives"
EXAMPLE = "as in 4:user=user,item=item, or item=movie/genre/year with what belongs to the item"
AT_A_TIME = 1 << 16  # rows that are looked through
BESIDE_VAL = 99  # as papers have it


class Negatives(NamedTuple):
    """Value of `--negatives`: how many are drawn, of which user's column, and which belong to an item."""

    num: int
    user: str
    item: str
    belonging: tuple[str, ...]  # to the item, itself among them
    num_in_val: int


def parse(text: str) -> Negatives | None:
    """Return what `--negatives` says, None where it says nothing; UsageError names what is wrong."""
    if not text:
        return None
    number, _, rest = text.partition(":")
    options = {"user": "user", "item": "item", "val": str(BESIDE_VAL)}
    for part in filter(None, rest.split(",")):
        name, equals, value = part.partition("=")
        if name not in options or not equals or not value:
            raise UsageError(f"{FLAG} {text}: {part} is none of user=, item= and val=; give them {EXAMPLE}")
        options[name] = value
    counts = [
        each for each in (number, options["val"]) if not each.isdecimal() or not 0 < int(each) <= 10_000
    ]
    if counts:
        raise UsageError(f"{FLAG} {text}: give a number from 1 to 10000 where {counts[0]!r} is, {EXAMPLE}")
    belonging = tuple(options["item"].split("/"))
    return Negatives(int(number), options["user"], belonging[0], belonging, int(options["val"]))


def beside(positives: Any, wanted: Negatives, seed: int, trained: Any = None) -> Any:
    """Return a data set with negatives beside its rows.

    Args:
        positives: a table, or records that were packed from one.
        wanted: the value of the flag.
        seed: the run's.
        trained: None for the rows that are trained on, whose negatives are others in each epoch; for rows to evaluate
            on, those that were trained on, whose items are no negatives either. Rows that have candidates of their own,
            with a target of 0, get none.

    Returns:
        The data set; DataError where the rows are none of implicit feedback.
    """
    labels = positives.labels()
    is_one = labels == 1
    if labels.ndim > 1 or not is_one.all():
        if trained is not None and labels.ndim == 1 and np.isin(labels, (0, 1)).all():
            return positives
        row = int(np.flatnonzero(~is_one.reshape(len(labels), -1).all(axis=1))[0])
        raise DataError(
            f"{positives.where(row)}: {FLAG} draws rows with a target of 0 beside rows that have one target, 1, and "
            "this one has something else; leave such rows out, or the flag"
        )
    count = wanted.num if trained is None else wanted.num_in_val
    return WithNegatives([positives, *([] if trained is None else [trained])], wanted, seed, count)


class WithNegatives:
    """`Records` of rows, each followed by its negatives. A position above the length is one of a later epoch."""

    has_epochs = True  # a sample differs from epoch to epoch: its position says in which it is
    class_names: list[str] | None = None

    def __init__(self, data_sets: Sequence[Any], wanted: Negatives, seed: int, count: int):
        """Take rows, and perhaps others that tell too who has chosen what."""
        self.positives = positives = data_sets[0]
        self.path, self.files, self.descriptors = positives.path, positives.files, positives.descriptors
        self.count = count
        self.keys: Ints = np.arange(len(self))
        self._data_sets, self._seed, self._belonging = data_sets, seed, wanted.belonging
        self._inputs = _inputs_of(positives)
        user, item = (_place(self._inputs, name) for name in (wanted.user, wanted.item))
        self._refuse_unknown()
        users, items = self._pairs(user, item)
        self._user = user
        self._chosen = negatives.index_of(users, items)
        self._rows_of_items = np.unique(items, return_index=True)[1]
        own = np.searchsorted(self._chosen.users, users[: len(positives)])
        has_none = (negatives.num_unchosen(self._chosen, self._chosen.users) == 0)[own]
        if has_none.any():
            raise DataError(
                f"{positives.where(int(np.argmax(has_none)))}: its {wanted.user} has chosen all "
                f"{len(self._chosen.items)} of {wanted.item}, and none is left for {FLAG}; leave such users out"
            )

    @property
    def layout(self) -> Any:
        return getattr(self.positives, "layout", None)

    @property
    def columns(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = getattr(self.positives, "columns", {})
        return found

    def __len__(self) -> int:
        return len(self.positives) * (1 + self.count)

    def where(self, position: int) -> str:
        row, number = divmod(position % len(self), 1 + self.count)
        beside = f", negative {number}" if number else ""
        return f"{self.positives.where(row)}{beside}"

    def labels(self) -> Floats:
        return np.tile(np.array([1, *[0] * self.count], np.float32), len(self.positives))

    def will_need(self, positions: Ints) -> None:
        self.positives.will_need(np.unique(positions % len(self) // (1 + self.count)))

    def read(self, position: int, verify: bool = True) -> Record:
        columns, labels = self.read_columns(np.array([position]), self._inputs, verify)
        values = {each.name: columns[each.name] for each in self._inputs}
        arrays = {name: each.rows if isinstance(each, Ragged) else each[0] for name, each in values.items()}
        return Record(position, float(labels[0]), arrays)

    def read_columns(
        self, positions: Ints, inputs: Sequence[Input], verify: bool
    ) -> tuple[Mapping[str, Any], Array]:
        """Return the columns of samples, and their labels."""
        epochs, samples = np.divmod(positions, len(self))
        rows, numbers = np.divmod(samples, 1 + self.count)
        of_users = self._columns(rows, verify)
        of_items = self._columns(self._item_rows(epochs, rows, numbers, of_users[IDS]), verify)
        mixed = {each.name: self._mixed(each, of_users[each.name], of_items[each.name]) for each in inputs}
        return mixed, (numbers == 0).astype(np.float32)

    def _item_rows(self, epochs: Ints, rows: Ints, numbers: Ints, ids: Array) -> Ints:
        """Return the row that each sample takes its item from: itself, where it is no negative."""
        from_rows: Ints = rows.copy()
        for epoch in np.unique(epochs).tolist():
            of_epoch = np.flatnonzero((epochs == epoch) & (numbers > 0))
            users = ids[of_epoch, self._user]
            drawn = negatives.negatives(
                self._chosen, self._seed, epoch, rows[of_epoch], users, int(numbers[of_epoch].max(initial=0))
            )
            items = drawn[np.arange(len(of_epoch)), numbers[of_epoch] - 1]
            from_rows[of_epoch] = self._rows_of_items[np.searchsorted(self._chosen.items, items)]
        return from_rows

    def _mixed(self, of: Input, of_users: Any, of_items: Any) -> Any:
        """Return an array of samples with the columns of their items."""
        if of.varies:
            return of_items if of.name in self._belonging else of_users
        mixed = np.array(of_users)
        places = [place for place, column in enumerate(_column_names(of)) if column in self._belonging]
        mixed[:, places] = of_items[:, places]
        return mixed

    def _columns(self, rows: Ints, verify: bool) -> Mapping[str, Any]:
        """Return columns of rows, which count on from one data set to the next."""
        if (rows < len(self.positives)).all():
            return _columns_of(self.positives, rows, self._inputs, verify)
        is_own = rows < len(self.positives)
        order = np.argsort(~is_own, kind="stable")  # own rows before those of the other data set
        own = _columns_of(self.positives, rows[is_own], self._inputs, verify)
        others = _columns_of(self._data_sets[1], rows[~is_own] - len(self.positives), self._inputs, verify)
        back = np.argsort(order, kind="stable")
        return {each.name: _in_order(own[each.name], others[each.name], back) for each in self._inputs}

    def _pairs(self, user: int, item: int) -> tuple[Ints, Ints]:
        """Return the user and the item of each row of all data sets."""
        parts = []
        for data in self._data_sets:
            for start in range(0, len(data), AT_A_TIME):
                rows = np.arange(start, min(start + AT_A_TIME, len(data)))
                parts.append(_columns_of(data, rows, self._inputs, True)[IDS][:, [user, item]])
        pairs = np.concatenate(parts)
        return pairs[:, 0], pairs[:, 1]

    def _refuse_unknown(self) -> None:
        names = [name for each in self._inputs for name in (_column_names(each) or (each.name,))]
        odd = next((name for name in self._belonging if name not in names), None)
        if odd is not None:
            shown = ", ".join(dict.fromkeys(names))
            raise UsageError(f"{FLAG}: {odd} is no column that the net takes{nearest(odd, names)} ({shown})")


def _columns_of(data: Any, rows: Ints, inputs: Sequence[Input], verify: bool) -> Mapping[str, Any]:
    """Return the columns of rows; DataError names the one that is damaged."""
    columns, labels = id_reader.columns_of(data, rows, inputs, verify)
    if labels is not None:
        return columns
    found: dict[str, list[Any]] = {each.name: [] for each in inputs}  # of records that cannot be read at once
    for row in rows.tolist():
        values = array_fields.decode(inputs, data.read(row, verify).payload)
        for name, of_name in found.items():
            of_name.append(np.asarray(values[name]))
    return {
        each.name: Ragged(np.concatenate(found[each.name]), np.array(list(map(len, found[each.name]))))
        if each.varies
        else np.stack(found[each.name])
        for each in inputs
    }


def _in_order(own: Any, others: Any, order: Ints) -> Any:
    """Return a column of own rows and of others, put in order."""
    if not isinstance(own, Ragged):
        return np.concatenate([own, others])[order]
    lists = Ragged(np.concatenate([own.rows, others.rows]), np.concatenate([own.lengths, others.lengths]))
    return id_reader.chosen(lists, order)


def _inputs_of(positives: Any) -> tuple[Input, ...]:
    layout = array_fields.read_sidecars(positives.files) if positives.files else positives.layout
    found: tuple[Input, ...] = layout.inputs
    return found


def _column_names(of: Input) -> tuple[str, ...]:
    """Return the column that each feature of an array is made of."""
    if not of.encodings:
        return of.names
    return tuple(each.column for each in of.encodings for _ in each.names)


def _place(inputs: Sequence[Input], name: str) -> int:
    """Return the place of a column among the categories; UsageError where it is none."""
    names = next((each.names for each in inputs if each.name == IDS), ())
    if name not in names:
        raise UsageError(
            f"{FLAG}: {name} is no column of categories{nearest(name, names)} ({', '.join(names) or 'there is none'}); "
            f"give those of users and items, {EXAMPLE}"
        )
    return names.index(name)
