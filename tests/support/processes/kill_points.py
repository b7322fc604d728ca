"""Looks at what a death by SIGKILL leaves on disk, before every line of a checkpoint's way there.

`python -m tests.support.processes.kill_points FOLDER` prints before how many lines that was. No process dies: whoever
is killed leaves the files as they are at that line, so a copy of them stands for each death. What really kills is
tests/e2e/ends/test_kill.py.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from types import FrameType
from typing import Any, Callable, Iterator

import numpy as np

from mxtrain.checkpoint import directory
from mxtrain.checkpoint.directory import Snapshot
from mxtrain.core import durable, params_file

TRACED = {module.__file__ for module in (params_file, directory, durable, shutil)}


def snapshot(step: int, score: float | None) -> Snapshot:
    files = {
        name: {"a": np.full((3, 5), step, np.float32), "b": np.zeros(2)} for name in ("w.params", "o.params")
    }
    return Snapshot(step, files, {"score": score})


class Deaths:
    """The files in a folder as deaths would leave them; each state once, in a folder of its own."""

    def __init__(self, folder: Path, copies: Path):
        self.num_lines = 0
        self.left: list[Path] = []
        self._folder, self._copies = folder, copies
        self._before: list[tuple[str, int, int, int]] = []

    def during(self, action: Callable[[], None]) -> None:
        """Run `action`, and look before every line of it."""
        sys.settrace(self._trace)
        try:
            action()
        finally:
            sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in TRACED:
            return None
        if event == "line":
            sys.settrace(None)  # or it would look at its own lines
            self._look()
            sys.settrace(self._trace)
        return self._trace

    def _look(self) -> None:
        self.num_lines += 1
        now = sorted(_state(self._folder))
        if now != self._before:
            self._before = now
            self.left.append(self._copies / str(len(self.left)))
            _copy(self._folder, self.left[-1])


def _state(folder: Path) -> Iterator[tuple[str, int, int, int]]:
    """Name, inode, size and time of change of all that is in a folder."""
    for entry in os.scandir(folder) if folder.exists() else ():
        found = entry.stat()
        yield entry.path, found.st_ino, found.st_size, found.st_mtime_ns
        if entry.is_dir():
            yield from _state(Path(entry.path))


def _copy(source: Path, target: Path) -> None:
    """Make `target` a copy of `source`, which may not be there."""
    shutil.rmtree(target, ignore_errors=True)
    if source.exists():
        shutil.copytree(source, target)


def steps(folder: Path) -> tuple[int, int]:
    """Of the newest and the best checkpoint."""
    newest, best = directory.newest(folder), directory.best(folder)
    assert newest is not None and best is not None
    return newest[1]["step"], best[1]["step"]


def kill_everywhere(
    folder: Path, first: list[Snapshot], last: Snapshot, allowed: set[tuple[int, int]]
) -> int:
    """Deaths looked at while `last` is written after `first` with --keep-last 1 --keep-best 1."""

    def write() -> None:
        directory.write(folder, last)
        directory.prune(folder, keep_last=1, keep_best=1)

    def clean() -> None:
        directory.clean(folder)

    shutil.rmtree(folder, ignore_errors=True)
    for each in first:
        directory.write(folder, each)
    deaths = Deaths(folder, folder.with_name("deaths"))
    deaths.during(write)
    at_the_end = {path.name for path in folder.iterdir()}
    num_lines = deaths.num_lines
    for left in deaths.left:
        _copy(left, folder)
        again = Deaths(folder, folder.with_name("deaths-again"))
        again.during(clean)  # the next process dies while it puts things right
        num_lines += again.num_lines
        for left_again in (left, *again.left):
            _copy(left_again, folder)
            clean()
            assert steps(folder) in allowed, (left_again, steps(folder))
            write()  # as the run that goes on does
            assert {path.name for path in folder.iterdir()} == at_the_end, left_again
    return num_lines


def main(folder: Path) -> None:
    three = [snapshot(1, 0.9), snapshot(2, 0.1)], snapshot(3, 0.2)
    num_lines = kill_everywhere(folder, *three, allowed={(2, 1), (3, 1)})
    # The same step again, now with its score, where it is the only one.
    again = [snapshot(1, None)], snapshot(1, 0.5)
    num_lines += kill_everywhere(folder, *again, allowed={(1, 1)})
    print(num_lines)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
