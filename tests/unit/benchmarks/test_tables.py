"""The benchmark of tables: the clicks it makes, what it keeps, and its bars."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.tables import clicks, increments, memory, speed
from benchmarks.tables.increments import Kept
from benchmarks.tables.memory import Filled
from benchmarks.tables.speed import Ran


def test_clicks_are_the_same_each_time_and_few_ids_come_often() -> None:
    made, again = (clicks.made(5000, 26_000) for _ in range(2))
    assert all(np.array_equal(one, other) for one, other in zip(made, again))
    assert made.ids.shape == (5000, 26) and made.ids.min() >= 0 and made.ids.max() < 26_000
    first = made.ids[:, 0]
    assert (first == 0).mean() > 0.05 and len(np.unique(first)) > 300
    assert 0.3 < made.clicked.mean() < 0.7


def test_increments_have_the_bytes_of_what_was_touched(tmp_path: Path) -> None:
    found = increments.measured(tmp_path / "kept", 20_000, 2)
    assert [whole.num_bytes // 80 for whole, _ in found] == [20_005, 20_005]
    assert all(200 <= few.num_bytes // 80 <= 210 for _, few in found)
    assert not (tmp_path / "kept").exists()


def test_bars_are_for_the_largest_table_and_ratios_of_a_round() -> None:
    filled = [Filled(1000, 2 * 10**9, 10**6, 0), Filled(10**8, 10**9 - 1, 4_560_000_000, 0)]
    assert [bar.is_met for bar in memory.bars(filled)] == [True, True]
    assert [bar.is_met for bar in memory.bars(filled[:1])] == [False, False]
    assert [bar.is_met for bar in increments.bars([(Kept(1000, 1.0), Kept(20, 0.03))])] == [True, False]
    speeds = {
        speed.OURS: (9.0, 11.0), speed.TORCH: (10.0, 10.0), speed.OURS_SPREAD: (16.0, 15.0),
        speed.GLOO: (2.0, 2.0), speed.TENSORFLOW: (10.0, 10.0),
    }  # fmt: skip
    found = {side: [Ran(each, 0.6) for each in both] for side, both in speeds.items()}
    assert [bar.found for bar in speed.bars(found)] == ["1.55", "7.75", "1.00"]
