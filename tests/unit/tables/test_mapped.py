"""Rows of a checkpoint read where they lie are those that were written, in little memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.tables import first_values, mapped
from mxtrain.tables.arena import Arena
from mxtrain.tables.mapped import MappedTable
from mxtrain.tables.options import TableOptions
from mxtrain.tables.row_files import ShareFiles

OPTIONS = TableOptions("t", 16, seed=3)


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
    table = MappedTable(tmp_path, "t")
    assert np.array_equal(table.rows(wanted), rows) and table.options == OPTIONS
    assert np.array_equal(table.rows(np.arange(500)), first_values.rows(OPTIONS, np.arange(500)))


def resident_bytes(path: Path) -> int:
    """The bytes of a mapped file that are in this process's memory."""
    text = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text(), flags=re.M)
    return sum(int(re.findall(r"^Rss:\s+(\d+)", each, re.M)[0]) for each in text if str(path) in each) << 10


def test_little_of_a_file_is_in_memory_at_any_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "AT_A_TIME", 10)
    ids, peaks = np.arange(200_000), []
    saved(tmp_path, ids)
    (path,) = tmp_path.iterdir()
    table = MappedTable(tmp_path, "t")
    (file,) = table._shares[0]
    give_back = file.give_back

    def noted() -> None:
        peaks.append(resident_bytes(path))
        give_back()

    monkeypatch.setattr(file, "give_back", noted)
    table.rows(ids[:2000])
    assert len(peaks) == 200 and 0 < max(peaks) < 0.6 * path.stat().st_size
    assert resident_bytes(path) == 0
