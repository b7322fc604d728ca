"""A layer of rows by ids, of a table that no worker has as a whole.

Owns the lookup, pooled where ids come in lists, and the gradients of what was looked up. Rows come from a `RowSource`:
in training the owners of the table (`train/tables/`), in use a checkpoint's files. Rows are leaves of MXNet's graph, so
neither its Embedding nor its row-sparse arrays are used.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, Protocol, Sequence

import numpy as np

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.fields import Array
from mxtrain.models.nets import fields
from mxtrain.models.nets.fields import Fields, FieldUse
from mxtrain.models.parameters import weights
from mxtrain.runtime import mx
from mxtrain.runtime.memory import memory
from mxtrain.runtime.types import Block, Device, NDArray
from mxtrain.tables import first_values, sums
from mxtrain.tables.options import TableOptions

SUM, MEAN = "sum", "mean"
LARGEST_IN_FLOAT32 = 1 << 24  # from here on neighbours are one number


class RowSource(Protocol):
    """A provider of a table's rows."""

    def rows(self, ids: Array) -> Array:
        """Return the rows of these int64 ids, each of which is there once."""
        ...


class Lookup(NamedTuple):
    """The ids that are looked up, their distinct ones, and where each is among these."""

    ids: Array
    distinct: Array
    positions: Array


def lookup_of(ids: Array) -> Lookup:
    """Return what ids are looked up, a row for each."""
    return Lookup(ids, *sums.distinct(ids))


class Use(NamedTuple):
    """A lookup of which a gradient comes back."""

    ids: Array  # each once
    positions: Array  # among them, of each that was looked up
    lists: Array | None  # of each, the row of `looked_up` that it is in; None: each has its own
    factors: Array | None  # of each in that row; None where all are 1
    looked_up: NDArray

    def gradients(self) -> Array:
        """Return the gradients of the rows of `ids`; waits for the backward pass."""
        width = self.looked_up.shape[-1]
        if not self.looked_up._fresh_grad:  # no loss depends on it: nothing has written its gradient
            return np.zeros((len(self.ids), width), np.float32)
        gradient: NDArray = self.looked_up.grad
        on_cpu = gradient.context.device_type == "cpu"
        of_all: Array = (memory(gradient) if on_cpu else gradient.asnumpy()).reshape(-1, width)
        if self.lists is not None:
            of_all = of_all[self.lists]
        if self.factors is not None:
            of_all = of_all * self.factors[:, None]
        return sums.summed(self.positions, of_all, len(self.ids))


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
        self.is_frozen = False  # by --freeze: rows stay as they are, and none comes to life
        self.lr_mult = (
            1.0  # as a parameter's, by --lr-scale and --layer-decay: of the rate that `rate_factor` gives
        )
        self.source: RowSource | None = None  # until there is one, rows are as they begin
        self.expected: list[Lookup] = []  # of micro-batches to come, so that their ids are sorted once
        # By device, in the order of calls, until their gradients are taken.
        self.uses: dict[Device, list[Use | FieldUse]] = {}

    def forward(self, ids: NDArray) -> NDArray:
        """Return the row of each id: an array of the shape of `ids`, and the width."""
        return self._looked_up(self._known(ids).reshape(-1), ids.shape, ids.context)

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
        return self._looked_up(self._known(ids)[is_there], ids.shape[:1], ids.context, lists, factors)

    def fields(self, ids: NDArray, num_weights: int) -> Fields:
        """Return the fields of samples by their ids, (samples, fields); rows begin with so many weights. On a CPU."""
        _, unique, positions = self._lookup(self._known(ids).reshape(-1))
        looked_up = fields.looked_up(self.rows(unique), positions, ids.shape, num_weights)
        if self._has_gradients():
            self._note(FieldUse(unique, positions, num_weights, looked_up), looked_up, ids.context)
        return looked_up

    def take_uses(self, device: Device) -> list[Use | FieldUse]:
        """Return the uses of a device since the last call, in the order of calls."""
        return self.uses.pop(device, [])

    def rows(self, ids: Array) -> Array:
        """Return the rows of ids, each of which is there once."""
        if self.source is not None:
            return self.source.rows(ids)
        return first_values.rows(self.options, ids)

    def _lookup(self, ids: Array) -> Lookup:
        """Return the lookup of ids, which may have been expected."""
        for number, each in enumerate(self.expected):
            if np.array_equal(each.ids, ids):
                return self.expected.pop(number)
        return lookup_of(ids)

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
        self,
        ids: Array,
        shape: tuple[int, ...],
        device: Device,
        lists: Array | None = None,
        factors: Array | None = None,
    ) -> NDArray:
        """Return the rows of ids, or their sums by `lists`, in an array of this shape and the width."""
        _, unique, positions = self._lookup(ids)
        of_unique = self.rows(unique)
        looked_up = mx.nd.empty((*shape, self.options.width), ctx=device)
        if lists is None and device.device_type == "cpu":
            sums.take(of_unique, positions, memory(looked_up).reshape(len(positions), -1))
        else:
            rows: Array = np.empty((len(positions), self.options.width), np.float32)
            sums.take(of_unique, positions, rows)
            if factors is not None:
                rows *= factors[:, None]
            if lists is not None:
                rows = sums.summed(lists, rows, shape[0])
            looked_up[:] = rows.reshape(looked_up.shape)
        if self._has_gradients():
            self._note(Use(unique, positions, lists, factors, looked_up), [looked_up], device)
        return looked_up

    def _has_gradients(self) -> bool:
        return mx.autograd.is_recording() and not self.is_frozen

    def _note(self, use: Use | FieldUse, arrays: Sequence[NDArray], device: Device) -> None:
        """Note a use, of whose arrays gradients come back."""
        # As `attach_grad` does, which fills what the backward pass will write anyway.
        gradients = [mx.nd.empty(each.shape, ctx=device) for each in arrays]
        mx.autograd.mark_variables(list(arrays), gradients)
        self.uses.setdefault(device, []).append(use)


def tables_of(net: Block) -> list[Table]:
    """Return the tables of a net, in the order of their names; UsageError where two have one name."""
    found: dict[str, Table] = {}
    for table in weights.layers(net, Table):
        name = table.options.name
        if found.setdefault(name, table) is not table:
            raise UsageError(
                f"two tables of the net are called {name}; give each a name of its own, or use one twice"
            )
    return [found[name] for name in sorted(found)]
