"""A checkpoint of a table after few rows were touched, beside one of all its rows: bytes and time."""

from __future__ import annotations

import shutil
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness.tables import Bar
from mxtrain.tables.arena import Arena
from mxtrain.tables.options import TableOptions
from mxtrain.tables.row_files import ShareFiles

WIDTH, STEP_ROWS, TOUCHED = 16, 1 << 18, 100  # one in so many
BAR = 0.02


class Kept(NamedTuple):
    """The bytes and seconds of a checkpoint that has been written."""

    num_bytes: int
    seconds: float


def measured(folder: Path, num_rows: int, rounds: int) -> list[tuple[Kept, Kept]]:
    """Return, of each round, what all rows took, and what the few took that were touched in between."""
    arena = Arena(TableOptions("rows", WIDTH, optimizer="adagrad_row"))
    _touch(arena, np.arange(num_rows))
    found = []
    for number in range(rounds):
        files = ShareFiles(arena)  # which knows of no file yet, and so writes all
        whole = _keep(files, folder / "whole", None)
        _touch(arena, np.arange(number, num_rows, TOUCHED))
        found.append((whole, _keep(files, folder / "increment", folder / "whole")))
    shutil.rmtree(folder)
    return found


def _touch(arena: Arena, ids: Any) -> None:
    for start in range(0, len(ids), STEP_ROWS):
        some = ids[start : start + STEP_ROWS]
        arena.update(some, np.full((len(some), WIDTH), 0.1, np.float32), arena.step + 1, 0.1)


def _keep(files: ShareFiles, folder: Path, previous: Path | None) -> Kept:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    begin = time.perf_counter()
    files.begin(folder, previous)
    files.write()
    seconds = time.perf_counter() - begin
    known = set() if previous is None else {path.stat().st_ino for path in previous.iterdir()}
    written = [path.stat() for path in folder.iterdir()]
    return Kept(sum(each.st_size for each in written if each.st_ino not in known), seconds)


def bars(found: list[tuple[Kept, Kept]]) -> list[Bar]:
    """Return the bars of what few rows take, by the medians of rounds."""
    shares = [
        statistics.median(few[at] / whole[at] for whole, few in found) for at in range(len(Kept._fields))
    ]
    return [
        Bar(f"{what} after 1% was touched, of a whole checkpoint's", f"{share:.3f}", f"at most {BAR}", share <= BAR)
        for what, share in zip(("bytes", "seconds"), shares)
    ]  # fmt: skip
