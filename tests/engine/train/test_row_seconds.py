"""The time in which rows of tables travel is told apart: waited for, or hidden behind what is computed meanwhile."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from mxtrain.kvstore.tables.owner import RowPull
from mxtrain.train.tables.step_tables import TableRows


class Slow:
    """Owners whose rows need a time to come."""

    def __init__(self, seconds: float):
        self._seconds = seconds

    def pull(self, table: int, ids: Any) -> RowPull:
        return Coming(time.monotonic() + self._seconds, ids)

    prefetch = pull


class Coming:
    def __init__(self, arrives: float, ids: Any):
        self._arrives, self._ids = arrives, ids

    @property
    def arrived(self) -> float | None:
        return self._arrives if time.monotonic() >= self._arrives else None

    def wait(self) -> Any:
        time.sleep(max(0.0, self._arrives - time.monotonic()))
        return np.zeros((len(self._ids), 2), np.float32)


def test_rows_that_are_asked_for_late_are_waited_for() -> None:
    owners: Any = Slow(0.2)
    rows = TableRows(owners, 0)
    rows.rows(np.arange(3))
    assert rows.seconds.waited > 0.19 and rows.seconds.hidden == 0


def test_rows_that_come_while_something_is_computed_are_hidden() -> None:
    owners: Any = Slow(0.2)
    rows, ids = TableRows(owners, 0), np.arange(3)
    rows.ask(ids, is_next_step=False)
    time.sleep(0.3)
    rows.rows(ids)
    assert rows.seconds.hidden == pytest.approx(0.2, abs=0.05) and rows.seconds.waited < 0.19
