"""What tests of tables share: a table as a dict of rows, the same steps for it and for an arena, and ways without C."""

from __future__ import annotations

import dataclasses
from typing import Any, Iterator, NamedTuple

import numpy as np
import pytest

from mxtrain import native
from mxtrain.tables import first_values, index, records, snapshot
from mxtrain.tables.arena import Arena
from mxtrain.tables.options import TableOptions

FUNCTIONS = (
    *("find_slots", "insert_slots", "hash_texts", "read_rows", "move_rows", "gather"),
    *("take_rows", "distinct_ids", "add_rows", "square_rows", "add_by_exponent", "find_records"),
    *("take_fields", "add_fields"),
)
WAYS = ["C", "NumPy"]


def go_way(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the part in C, or skip a test of it where it is not built."""
    if way == "C" and native.find_slots is None:
        pytest.skip("mxtrain was installed without a C compiler")
    if way == "NumPy":
        for name in FUNCTIONS:
            monkeypatch.setattr(native, name, None)


def make_all_parts_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few hundred rows be what millions are: many chunks, pieces and growths of the index."""
    monkeypatch.setattr(index, "LEAST_PLACES", 16)
    monkeypatch.setattr(index, "AT_A_TIME", 32)
    monkeypatch.setattr(records, "CHUNK", 64)
    monkeypatch.setattr(records, "SCAN", 48)
    monkeypatch.setattr(snapshot, "PIECE", 24)


class Row(NamedTuple):
    """A row of the dict, and the step that last used it."""

    numbers: Any
    last: int


@dataclasses.dataclass
class PlainTable:
    """A table moved by `sgd`, as a dict."""

    options: TableOptions
    rows: dict[int, Row] = dataclasses.field(default_factory=dict)
    sightings: dict[int, tuple[int, int]] = dataclasses.field(default_factory=dict)  # how many, and the last

    def row(self, id: int) -> Any:
        if id in self.rows:
            return self.rows[id].numbers
        return first_values.rows(self.options, np.array([id]))[0]

    def update(self, ids: Any, gradients: Any, step: int, rate: float) -> None:
        for id, gradient in zip(ids.tolist(), gradients):
            if id not in self.rows:
                count = self.sightings.pop(id, (0, 0))[0] + 1
                if count < self.options.admit_after:
                    self.sightings[id] = count, step
                    continue
            self.rows[id] = Row(self.row(id) - np.float32(rate) * gradient, step)

    def expire(self, step: int) -> int:
        old = [id for id, row in self.rows.items() if row.last <= step - self.options.expire_after]
        for id in old:
            del self.rows[id]
        seen = self.sightings.items()
        self.sightings = {id: each for id, each in seen if each[1] > step - self.options.expire_after}
        return len(old)


class Step(NamedTuple):
    number: int
    ids: Any
    gradients: Any
    rate: float


def steps(seed: int, width: int, num_steps: int, first: int = 1, num_ids: int = 400) -> Iterator[Step]:
    """Yield steps that use some of so many ids, large, negative and at both ends of int64 with them."""
    rng = np.random.default_rng(seed)
    ends = np.array([0, -1, 1, -(1 << 63), (1 << 63) - 1])
    ids = np.unique(np.concatenate([rng.integers(-(1 << 63), (1 << 63) - 1, num_ids), ends]))
    for number in range(1, num_steps + 1):
        used = rng.choice(ids, rng.integers(0, len(ids) // 2), replace=False)
        gradients = rng.standard_normal((len(used), width)).astype(np.float32)
        if number >= first:
            yield Step(number, used, gradients, 0.5 / number)


def assert_same(arena: Arena, table: PlainTable, others: Any = ()) -> None:
    """Compare all rows to the bit, and what is read of ids without one."""
    ids = np.array([*table.rows, *table.sightings, *others, 12345], np.int64)
    rows = np.empty((len(ids), table.options.width), np.float32)
    arena.read(ids, rows)
    assert np.array_equal(rows, [table.row(id) for id in ids.tolist()])
    assert arena.num_rows == len(table.rows)
