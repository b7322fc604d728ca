"""Rows of a checkpoint read where they lie are those that were written, in little memory."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.core.system import machine
from mxtrain.tables import first_values
from mxtrain.tables.arena import Arena
from mxtrain.tables.options import TableOptions
from mxtrain.tables.row_files import ShareFiles
from mxtrain.tables.saved_table import SavedTable
from tests.support.tables import WAYS, go_way

OPTIONS = TableOptions("t", 16, seed=3)


@pytest.fixture(params=WAYS, autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    go_way(request.param, monkeypatch)


def saved(folder: Path, ids: Any) -> Arena:
    arena = Arena(OPTIONS)
    rng = np.random.default_rng(0)
    arena.update(ids, rng.standard_normal((len(ids), 16)).astype(np.float32), 1, 0.1)
    files = ShareFiles(arena)
    files.begin(folder)
    files.write()
    return arena


@pytest.mark.parametrize("num_rows", [0, 1, 2, 3, 70_000])
def test_rows_are_those_of_the_arena(tmp_path: Path, num_rows: int) -> None:
    ids = np.random.default_rng(1).integers(-(1 << 62), 1 << 62, num_rows)
    arena = saved(tmp_path, ids)
    wanted = np.concatenate([ids[:5000], ids[:1000], np.arange(500)])
    rows = np.empty((len(wanted), 16), np.float32)
    arena.read(wanted, rows)
    table = SavedTable(tmp_path, "t")
    assert np.array_equal(table.rows(wanted), rows) and table.options == OPTIONS
    assert np.array_equal(table.rows(np.arange(500)), first_values.rows(OPTIONS, np.arange(500)))


def test_little_of_a_file_is_in_memory_at_any_time(tmp_path: Path) -> None:
    """A file of 16 MB, read through in small parts."""
    ids = np.arange(200_000)
    saved(tmp_path, ids)
    table = SavedTable(tmp_path, "t")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = machine.resident_bytes(os.getpid())
    for start in range(0, len(ids), 2000):
        table.rows(ids[start : start + 2000])
    (peak,) = re.findall(r"^VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(), re.M)
    assert (int(peak) << 10) - before < 4 << 20


def test_a_file_that_shrinks_meanwhile_is_an_error(tmp_path: Path) -> None:
    saved(tmp_path, np.arange(1000))
    table, (path,) = SavedTable(tmp_path, "t"), tmp_path.iterdir()
    path.write_bytes(b"")
    with pytest.raises((OSError, ValueError)):
        table.rows(np.arange(10))
