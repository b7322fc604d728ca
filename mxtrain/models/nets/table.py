"""A layer of rows by ids, of a table that no worker has as a whole.

Owns the lookup, pooled where ids come in lists, and the gradients of what was looked up. Rows come from a `RowSource`:
in training the owners of the table (`train/tables/`), in use a checkpoint's files. Rows are leaves of MXNet's graph, so
neither its Embedding nor its row-sparse arrays are used.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, Protocol

import numpy as np

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.fields import Array
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, NDArray
from mxtrain.tables import first_values
from mxtrain.tables.options import TableOptions
from mxtrain.tables.sums import sum_by_id

SUM, MEAN = "sum", "mean"
LARGEST_IN_FLOAT32 = 1 << 24  # from here on neighbours are one number


class RowSource(Protocol):
    """Whoever has the rows of a table."""

    def rows(self, ids: Array) -> Array:
        """Return the rows of these int64 ids, each of which is there once."""
        ...


class Use(NamedTuple):
    """A lookup of which a gradient comes back."""

    ids: Array  # of all that were looked up, in order
    lists: Array  # of each id, the row of `looked_up` that it is in
    factors: Array | None  # of each id in that row; None where all are 1
    looked_up: NDArray

    def gradients(self) -> tuple[Array, Array]:
        """Return the ids, each once, and the gradients of their rows; waits for the backward pass."""
        of_lists = self.looked_up.grad.asnumpy().reshape(-1, self.looked_up.shape[-1])
        of_ids = of_lists if len(of_lists) == len(self.ids) and self.factors is None else of_lists[self.lists]
        if self.factors is not None:
            of_ids = of_ids * self.factors[:, None]
        return sum_by_id(self.ids, of_ids)


class Table(mx.gluon.Block):
    """Rows of `width` numbers for int64 ids. A net with it is a Block; the parts around it can be hybridized.

    `name` tells the tables of a net apart. `field` names the array of a batch that it is called with, if it is one: its
    rows are then asked for while the micro-batch before is computed. All other keywords are those of `TableOptions`:
    first values, optimizer, admission, expiry, a limit.
    """

    def __init__(self, name: str, width: int, field: str = "", **options: Any):
        super().__init__()
        try:
            self.options = TableOptions(name=name, width=width, **options)
        except TypeError as error:
            names = ", ".join(each.name for each in dataclasses.fields(TableOptions))
            raise UsageError(f"table {name}: {error}; a table has {names}") from None
        self.field = field
        self.source: RowSource | None = None  # until there is one, rows are as they begin
        self.uses: dict[
            Any, list[Use]
        ] = {}  # by device, in the order of calls, until their gradients are taken

    def forward(self, ids: NDArray) -> NDArray:
        """Return the row of each id: an array of the shape of `ids`, and the width."""
        known = self._known(ids).reshape(-1)
        return self._looked_up(known, np.arange(len(known)), None, (*ids.shape, self.options.width), ids)

    def pooled(self, ids: NDArray, lengths: NDArray, by: str = SUM) -> NDArray:
        """Return a row for each list: the sum or the mean of its ids' rows, zeros for an empty list.

        `ids` are (lists, longest), and of each list the first `lengths` count.
        """
        if by not in (SUM, MEAN):
            raise UsageError(f"table {self.options.name}: pooled by {by}; by {SUM} or {MEAN}")
        counts = lengths.asnumpy().astype(np.int64)
        is_there = np.arange(ids.shape[1]) < counts[:, None]
        lists, _ = np.nonzero(is_there)
        factors = (1 / counts[lists]).astype(np.float32) if by == MEAN else None
        known = self._known(ids)[is_there]
        return self._looked_up(known, lists, factors, (ids.shape[0], self.options.width), ids)

    def take_uses(self, device: Any) -> list[Use]:
        """Return the uses of a device since the last call, in the order of calls."""
        return self.uses.pop(device, [])

    def rows(self, ids: Array) -> Array:
        """Return the rows of ids, each of which is there once."""
        if self.source is not None:
            return self.source.rows(ids)
        return first_values.rows(self.options, ids)

    def _known(self, ids: NDArray) -> Array:
        found = ids.asnumpy()
        if found.dtype.kind in "iu":
            return found.astype(np.int64, copy=False)
        if found.size and (np.abs(found).max() >= LARGEST_IN_FLOAT32 or (found != np.floor(found)).any()):
            raise DataError(
                f"table {self.options.name}: ids of {found.dtype} that are no whole numbers below "
                f"{LARGEST_IN_FLOAT32}; give int64"
            )
        return found.astype(np.int64)

    def _looked_up(
        self, ids: Array, lists: Array, factors: Array | None, shape: tuple[int, ...], like: NDArray
    ) -> NDArray:
        unique, places = np.unique(ids, return_inverse=True)
        rows = self.rows(unique)[places]
        if factors is not None:
            rows *= factors[:, None]
        if len(lists) != np.prod(shape[:-1]) or factors is not None:
            pooled = np.zeros((int(np.prod(shape[:-1])), shape[-1]), np.float32)
            np.add.at(pooled, lists, rows)
            rows = pooled
        with mx.autograd.pause():
            found = mx.nd.array(rows.reshape(shape), ctx=like.context, dtype=np.float32)
        if mx.autograd.is_recording():
            found.attach_grad()
            self.uses.setdefault(like.context, []).append(Use(ids, lists, factors, found))
        return found


def tables_of(net: Block) -> list[Table]:
    """Return the tables of a net, in the order of their names; UsageError where two have one name."""
    found: dict[str, Table] = {}
    for table in _tables_in(net, set()):
        name = table.options.name
        if found.setdefault(name, table) is not table:
            raise UsageError(
                f"two tables of the net are called {name}; give each a name of its own, or use one twice"
            )
    return [found[name] for name in sorted(found)]


def _tables_in(block: Block, seen: set[int]) -> list[Table]:
    if id(block) in seen:
        return []
    seen.add(id(block))
    own = [block] if isinstance(block, Table) else []
    return [*own, *(each for child in block._children.values() for each in _tables_in(child, seen))]
