"""Rows of a share: they are what a dict of rows would be, in C and in NumPy to the bit."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

from mxtrain import native
from mxtrain.core import exact_sum
from mxtrain.core.errors import UsageError
from mxtrain.core.system import machine
from mxtrain.tables import first_values
from mxtrain.tables.arena import Arena
from mxtrain.tables.options import OPTIMIZERS, TableOptions
from mxtrain.tables.sums import distinct, sum_by_id, sum_of_squares
from tests.support.breadth import slow_cases
from tests.support.tables import WAYS, go_way


def reference(options: TableOptions, row: Any, state: dict[str, Any], gradient: Any, rate: float) -> Any:
    """Return a row moved by one gradient, in float64, from the formulas of the optimizers' papers."""
    row = row - rate * options.decay * row
    if options.optimizer == "sgd":
        return row - rate * gradient
    if options.optimizer == "momentum":
        state["m"] = options.momentum * state.get("m", 0) + gradient
        return row - rate * state["m"]
    if options.optimizer == "adagrad":
        state["s"] = state.get("s", 0) + gradient**2
        return row - rate * gradient / (np.sqrt(state["s"]) + options.epsilon)
    if options.optimizer == "adagrad_row":
        state["s"] = state.get("s", 0) + np.mean(gradient**2)
        return row - rate * gradient / (np.sqrt(state["s"]) + options.epsilon)
    state["t"] = state.get("t", 0) + 1
    state["m"] = options.beta1 * state.get("m", 0) + (1 - options.beta1) * gradient
    state["v"] = options.beta2 * state.get("v", 0) + (1 - options.beta2) * gradient**2
    mean = state["m"] / (1 - options.beta1 ** state["t"])
    return row - rate * mean / (np.sqrt(state["v"] / (1 - options.beta2 ** state["t"])) + options.epsilon)


def steps(seed: int, width: int, num_ids: int) -> Any:
    rng = np.random.default_rng(seed)
    ids = rng.integers(-(1 << 62), 1 << 62, num_ids)
    for step in range(1, 12):
        used = np.unique(rng.choice(ids, rng.integers(0, num_ids)))
        yield step, used, rng.standard_normal((len(used), width)).astype(np.float32), 0.1 / step


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("width", [3, *slow_cases(1, 16)])
def test_rows_move_as_the_papers_have_it(optimizer: str, width: int) -> None:
    options = TableOptions("t", width, seed=3, optimizer=optimizer, decay=0.01)
    arena, rows, states = Arena(options), {}, {}
    for step, ids, gradients, rate in steps(width, width, 2000):
        factor = 1.0 if step % 2 else 0.3
        arena.update(ids, gradients, step, rate, factor)
        for id, gradient in zip(ids.tolist(), factor * gradients.astype(np.float64)):
            row = rows.get(id)
            row = first_values.rows(options, np.array([id]))[0].astype(np.float64) if row is None else row
            rows[id] = reference(options, row, states.setdefault(id, {}), gradient, rate)
    known = np.array(sorted(rows))
    found = np.empty((len(known), width), np.float32)
    arena.read(known, found)
    assert arena.num_rows == len(rows)
    np.testing.assert_allclose(found, np.array([rows[id] for id in known.tolist()]), rtol=2e-4, atol=2e-6)


@pytest.mark.skipif(native.find_slots is None, reason="the part in C is not built")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("seed", [3, *slow_cases(0, 1, 2)])
def test_c_and_numpy_have_the_same_bits(
    optimizer: str, seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    width = int(np.random.default_rng(seed).integers(1, 40))
    options = TableOptions(
        "t",
        width,
        seed=seed,
        optimizer=optimizer,
        decay=0.01 * (seed % 2),
        admit_after=1 + seed // 2,
        expire_after=4,
    )
    found = []
    for is_native in (True, False):
        if not is_native:
            go_way("NumPy", monkeypatch)
        arena = Arena(options, tmp_path if seed % 2 else None)
        rows = []
        for step, ids, gradients, rate in steps(seed, width, 3000):
            arena.update(ids, gradients, step, rate, factor=1 / step)
            rows.append(arena.expire(step))
            some = np.concatenate([ids, np.arange(50)])
            rows.append(np.empty((len(some), width), np.float32))
            arena.read(some, rows[-1])
        found.append([np.array(each).tobytes() for each in rows] + [arena.num_rows])
    assert found[0] == found[1]


def test_an_unknown_row_is_read_as_it_will_begin_and_does_not_come_to_life() -> None:
    options = TableOptions("t", 5, seed=9, scale=0.5)
    arena, ids = Arena(options), np.array([7, -3, 1 << 60])
    found = np.empty((3, 5), np.float32)
    arena.read(ids, found)
    assert np.array_equal(found, first_values.rows(options, ids)) and arena.num_rows == 0
    assert np.abs(found).max() <= 0.5 and len(np.unique(found)) == 15
    other = first_values.rows(TableOptions("u", 5, seed=9, scale=0.5), ids)
    assert not np.intersect1d(found, other).size
    arena.update(ids[:1], np.zeros((1, 5), np.float32), 1, 1.0)
    again = np.empty((3, 5), np.float32)
    arena.read(ids, again)
    assert np.array_equal(found, again) and arena.num_rows == 1


def test_admission_counts_steps_and_expiry_forgets_what_no_step_used() -> None:
    arena = Arena(TableOptions("t", 2, optimizer="sgd", scale=0.0, admit_after=3, expire_after=2))
    ids, gradients = np.array([1, 2]), np.ones((2, 2), np.float32)
    for step in (1, 2):
        arena.update(ids, gradients, step, 1.0)
        assert arena.num_rows == 0
    arena.update(ids[:1], gradients[:1], 3, 1.0)
    assert arena.num_rows == 1
    found = np.empty((2, 2), np.float32)
    arena.read(ids, found)
    assert found.tolist() == [[-1, -1], [0, 0]]
    assert arena.expire(4) == 0 and arena.expire(5) == 1 and arena.num_rows == 0
    arena.read(ids, found)
    assert found.tolist() == [[0, 0], [0, 0]]
    for step in (6, 7, 8):
        arena.update(ids[:1], gradients[:1], step, 1.0)
    assert arena.num_rows == 1


def test_a_limit_ends_in_words() -> None:
    arena = Arena(TableOptions("users", 2, max_rows=3))
    arena.update(np.arange(3), np.ones((3, 2), np.float32), 1, 1.0)
    with pytest.raises(UsageError, match=r"table users: 4 rows are more than its limit of 3.*max_rows"):
        arena.update(np.array([9]), np.ones((1, 2), np.float32), 2, 1.0)


def test_a_small_table_takes_little() -> None:
    """Nets have a table for each of their columns, most of them small."""
    before = machine.resident_bytes(os.getpid())
    arenas = [Arena(TableOptions("t", 16, optimizer="adam")) for _ in range(20)]
    for arena in arenas:
        arena.update(np.arange(10), np.ones((10, 16), np.float32), 1, 1.0)
    assert machine.resident_bytes(os.getpid()) - before < 20 * 100_000


def test_memory_that_is_short_ends_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is written to, as it would end the process without any."""
    arena = Arena(TableOptions("users", 2))
    arena.update(np.arange(3), np.ones((3, 2), np.float32), 1, 1.0)
    monkeypatch.setattr(machine, "available_memory", lambda: 250 << 20)
    with pytest.raises(
        UsageError, match=r"table users: 131072 rows take \d+ MB more .* 250 MB are left; give more"
    ):
        arena.update(np.arange(100_000), np.ones((100_000, 2), np.float32), 2, 1.0)


def test_address_space_that_is_short_ends_in_words() -> None:
    gc.collect()  # tables of other tests
    before = resource.getrlimit(resource.RLIMIT_AS)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + (2 << 30), before[1]))
    try:
        with pytest.raises(UsageError, match=r"table users: no address space for .* give it max_rows"):
            Arena(TableOptions("users", 2))
        Arena(TableOptions("users", 2, max_rows=1000))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("needs root")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], check=True, timeout=20)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True, timeout=20)


@pytest.mark.system
def test_a_disk_that_is_full_ends_in_words(small_disk: Path) -> None:
    arena = Arena(TableOptions("users", 2), small_disk)
    arena.update(np.arange(1000), np.ones((1000, 2), np.float32), 1, 1.0)
    with pytest.raises(
        UsageError, match=r"table users: no room for \d+ rows \(No space left.*\); see --store-dir"
    ):
        arena.update(np.arange(300_000), np.ones((300_000, 2), np.float32), 2, 1.0)


@pytest.mark.parametrize(
    "wrong",
    [
        *(
            {"width": 0},
            {"optimizer": "adgrad"},
            {"epsilon": 0.0},
            {"scale": float("nan")},
            {"admit_after": 0},
        ),
        *({"name": ""}, {"name": "用户" * 11}),
    ],
)
def test_options_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"table t|a table called"):
        TableOptions(**{"name": "t", "width": 4, **wrong})


@pytest.mark.parametrize("is_native", [True, False])
def test_equal_ids_are_added_in_their_order(is_native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_native:
        go_way("NumPy", monkeypatch)
    rng = np.random.default_rng(5)
    ids = rng.integers(-5, 5, 400)
    rows = (rng.standard_normal((400, 3)) * 10.0 ** rng.integers(-6, 6, (400, 1))).astype(np.float32)
    cuts = sorted(rng.integers(0, 400, 3))
    for lists in ([ids, rows], [np.split(ids, cuts), np.split(rows, cuts)]):
        unique, sums = sum_by_id(*([each] if len(each) == 400 else each for each in lists))
        assert np.array_equal(np.sort(unique), np.unique(ids))
        assert_in_order(ids, rows, unique, sums)
    some = np.array([5, 3, 4])
    unique, sums = sum_by_id([some], [rows[:3]])
    assert_in_order(some, rows[:3], unique, sums)
    assert [len(each) for each in sum_by_id([ids[:0]], [rows[:0]])] == [0, 0]


def assert_in_order(ids: Any, rows: Any, unique: Any, sums: Any) -> None:
    assert len(unique) == len(np.unique(ids))
    for id, total in zip(unique, sums):
        expected = np.zeros(3, np.float32)
        for row in rows[ids == id]:
            expected = expected + row
        assert np.array_equal(total, expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [0, 1, 2, 7, 4096, 50000])
def test_each_id_is_there_once_and_found_at_its_position(
    way: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_way(way, monkeypatch)
    rng = np.random.default_rng(count)
    for ids in (
        rng.integers(-(1 << 63), (1 << 63) - 1, count),
        rng.integers(0, count // 3 + 1, count) << 40,
        np.zeros(count, np.int64),
        np.arange(2 * count)[::-2],
    ):
        unique, positions = distinct(ids)
        assert np.array_equal(np.sort(unique), np.unique(ids)) and np.array_equal(unique[positions], ids)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (300, 17), (5, 0)])
def test_squares_are_added_exactly(shape: tuple[int, int], way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    go_way(way, monkeypatch)
    rng = np.random.default_rng(6)
    rows = (rng.standard_normal(shape) * 10.0 ** rng.integers(-30, 18, shape)).astype(np.float32)
    of_rows = np.zeros(shape[0])
    for column in range(shape[1]):
        of_rows = of_rows + rows[:, column].astype(np.float64) ** 2
    total = sum(map(Fraction, of_rows.tolist()), Fraction())
    assert sum_of_squares(rows) == total * 2**-exact_sum.LOWEST
    for number in (1e30, np.inf, np.nan):
        assert sum_of_squares(np.float32([[1, number], [1, 1]])) is None


def test_numbers_of_all_sizes_add_up_by_their_exponents() -> None:
    numbers = [0.0, -0.0, 5e-324, -2.5e-310, 1e-308, 3.5, -7.25, 1e300, -1.7e308]
    sums = np.zeros((exact_sum.NUM_EXPONENTS, 2), np.int64)
    if native.add_by_exponent is None:
        pytest.skip("mxtrain was installed without a C compiler")
    native.add_by_exponent(np.array(numbers), sums)
    total = sum(map(Fraction, numbers), Fraction())
    assert exact_sum.of_sums(sums) == exact_sum.of(numbers) == total * 2**-exact_sum.LOWEST
    with pytest.raises(ValueError):
        native.add_by_exponent(np.array([1.0, np.inf]), sums)


def test_rows_are_looked_for_again_once_the_index_has_changed() -> None:
    options = TableOptions("t", 1, optimizer="sgd", expire_after=1, scale=0.0)
    arena = Arena(options)
    ones: Any = np.ones((2, 1), np.float32)
    first, second = np.array([3, 4]), np.array([5, 6])
    arena.update(first, ones, 1, 1.0)
    rows = np.empty((2, 1), np.float32)
    arena.read(second, rows)  # which are not there
    arena.update(second, ones, 2, 1.0)
    arena.read(first, rows)
    assert arena.expire(2) == 2  # the first ones are gone, and others are in their slots
    arena.update(first, ones, 3, 1.0)
    for ids in (first, second):
        arena.read(ids, rows)
        assert rows.tolist() == [[-1], [-1]]
