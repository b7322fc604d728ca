"""Records stay what a dict of them would be, whatever comes and goes, and a snapshot is what they were."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest

from mxtrain.tables import hashing
from mxtrain.tables.arena import Arena
from mxtrain.tables.hashing import hashes_of
from mxtrain.tables.index import Index
from mxtrain.tables.options import TableOptions
from tests.support.breadth import slow_cases
from tests.support.tables import WAYS, PlainTable, assert_same, go_way, make_all_parts_small, steps

WIDTH = 3


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    go_way(request.param, monkeypatch)
    make_all_parts_small(monkeypatch)
    return str(request.param)


@pytest.mark.parametrize("seed", range(4))
def test_a_table_is_what_a_dict_would_be(way: str, seed: int) -> None:
    options = TableOptions(
        "t", WIDTH, seed=seed, optimizer="sgd", admit_after=1 + seed % 3, expire_after=3 + seed
    )
    arena, table = Arena(options), PlainTable(options)
    for step in steps(seed, WIDTH, 12):
        for each in (arena, table):
            each.update(step.ids, step.gradients, step.number, step.rate)
        if step.number % 2:
            assert arena.expire(step.number) == table.expire(step.number)
        assert_same(arena, table, step.ids.tolist())


@pytest.mark.parametrize("seed", [5, *slow_cases(*range(5))])
def test_a_snapshot_is_what_the_table_was_while_it_goes_on_changing(way: str, seed: int) -> None:
    """Rows move, come and go, and others take their slots, before, after and while their piece is read."""
    rng = np.random.default_rng(seed)
    options = TableOptions("t", WIDTH, seed=seed, optimizer="sgd", expire_after=4)
    arena, table = Arena(options), PlainTable(options)
    bases: list[int] = [0]
    pending: Any = None
    num_read = num_increments = 0
    for step in steps(seed, WIDTH, 40):
        for each in (arena, table):
            each.update(step.ids, step.gradients, step.number, step.rate)
        if step.number % 3 == 0:
            assert arena.expire(step.number) == table.expire(step.number)
        if pending is None and rng.random() < 0.7:
            base = int(rng.choice(bases))
            changed = arena.records.ids_used_after(base) if base else None
            pieces = arena.records.snapshot(base, changed).pieces()
            pending = base, copy.deepcopy(table), pieces, []
        elif pending is not None:
            base, before, pieces, found = pending
            found += itertools.islice(pieces, int(rng.integers(1, 12)))
            if rng.random() < 0.5:
                found += list(pieces)
                check_snapshot(np.concatenate(found), before, base)
                bases.append(max(row.last for row in before.rows.values()))
                num_read, num_increments = num_read + 1, num_increments + (base > 0)
                pending = None
    assert num_read > 5 and num_increments > 2


def check_snapshot(records: Any, before: PlainTable, base: int) -> None:
    expected = {id: row for id, row in before.rows.items() if row.last > base}
    assert sorted(records["id"].tolist()) == sorted(expected)
    hashes = hashes_of(records["id"])
    assert (hashes[1:] > hashes[:-1]).all()
    for record in records:
        row = expected[int(record["id"])]
        assert record["last"] == row.last and np.array_equal(record["row"], row.numbers)


def test_there_is_one_snapshot_at_a_time() -> None:
    arena = Arena(TableOptions("t", 2))
    arena.update(np.arange(5), np.ones((5, 2), np.float32), 1, 0.1)
    pieces = arena.records.snapshot().pieces()
    assert len(next(pieces)) == 5
    with pytest.raises(ValueError, match="still being read"):
        arena.records.snapshot()
    pieces.close()
    assert sum(map(len, arena.records.snapshot().pieces())) == 5


def test_steps_ascend() -> None:
    arena = Arena(TableOptions("t", 2))
    arena.update(np.arange(5), np.ones((5, 2), np.float32), 3, 0.1)
    for step in (3, 2, 1 << 31):
        with pytest.raises(ValueError, match=f"step {step} after step 3"):
            arena.update(np.arange(5), np.ones((5, 2), np.float32), step, 0.1)


def unmixed(hashes: Any) -> Any:
    """Return the ids that have these hashes."""
    inverses = [pow(factor, -1, 1 << 64) for factor in (0x94D049BB133111EB, 0xBF58476D1CE4E5B9)]
    numbers = []
    for number in hashes:
        for shift, inverse in zip((31, 27), inverses):
            number = undone(number, shift) * inverse % (1 << 64)
        numbers.append(undone(number, 30))
    return np.array(numbers, np.uint64).view(np.int64)


def undone(number: int, shift: int) -> int:
    """Return x where x ^ (x >> shift) is this number."""
    found = number
    for _ in range(64 // shift):
        found = number ^ (found >> shift)
    return found


@pytest.mark.parametrize("first", [0, (1 << 64) - 100, 1 << 63])
def test_ids_that_all_want_one_place_are_found(way: str, first: int) -> None:
    """Also the last place, behind which the index has no more but for them."""
    wanted = unmixed(range(first, first + 100))
    assert np.array_equal(hashing.hashes_of(wanted), np.arange(first, first + 100, dtype=np.uint64))
    others = np.arange(1, 301)
    ids = np.concatenate([wanted, others])
    index = Index(ids)
    for start in range(0, 400, 30):
        index.insert(np.arange(start, min(start + 30, 400)))
    assert np.array_equal(index.find(ids), np.arange(400))
    assert np.array_equal(index.find(others + 1000), np.full(300, -1))
    slots = index.slots_between(first, min(first + 50, 1 << 64))
    assert sorted(set(slots.tolist()) - set(range(100, 400))) == list(range(50))
    index.drop(lambda slots: slots % 2 == 0)
    assert np.array_equal(index.find(ids), np.where(np.arange(400) % 2, -1, np.arange(400)))
    ids[1:200:2] = moved = ids[200::2].copy()
    index.renumber(np.arange(200, 400, 2), np.arange(1, 200, 2))
    assert index.find(moved).tolist() == list(range(1, 200, 2))


def test_the_index_is_small_at_every_size(way: str) -> None:
    """At no size more than 4 bytes for each of 3 in 5 places."""
    index, ids = Index(np.arange(5000)), np.arange(5000)
    for start in range(0, 5000, 10):
        index.insert(ids[start : start + 10])
        assert index.num_bytes <= max(4 * 16, 4 / 0.59 * (start + 10))
