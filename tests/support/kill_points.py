"""Dies by SIGKILL before every line of a checkpoint's way to disk, one process a line, and looks at what is left.

`python -m tests.support.kill_points FOLDER` is a process without mxnet or threads, which may fork. Prints how many
deaths it has looked at.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any, Callable

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


def dies(action: Callable[[], None], line: int) -> bool:
    """Whether a child that runs `action` was killed before the `line`-th line; False: it had fewer."""
    child = os.fork()
    if child == 0:
        left = line

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal left
            if frame.f_code.co_filename not in TRACED:
                return None
            if event == "line":
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        try:
            action()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def steps(folder: Path) -> tuple[int, int]:
    """Of the newest and the best checkpoint."""
    newest, best = directory.newest(folder), directory.best(folder)
    assert newest is not None and best is not None
    return newest[1]["step"], best[1]["step"]


def kill_everywhere(
    folder: Path, first: list[Snapshot], last: Snapshot, allowed: set[tuple[int, int]]
) -> int:
    """Deaths looked at while `last` is written after `first` with --keep-last 1 --keep-best 1."""
    seen: set[tuple[str, ...]] = set()
    num_deaths = 0

    def write() -> None:
        directory.write(folder, last)
        directory.prune(folder, keep_last=1, keep_best=1)

    def start_over() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        for each in first:
            directory.write(folder, each)

    start_over()
    write()
    at_the_end = {path.name for path in folder.iterdir()}
    while True:
        start_over()
        if not dies(write, num_deaths + 1):
            break
        num_deaths += 1
        left = tuple(sorted(path.name for path in folder.iterdir()))
        line = 0
        while left not in seen and dies(lambda: directory.clean(folder), line + 1):
            line += 1  # and the next process dies while it puts things right
        seen.add(left)
        directory.clean(folder)
        assert steps(folder) in allowed, (num_deaths, left, steps(folder))
        write()  # as the run that goes on does
        assert {path.name for path in folder.iterdir()} == at_the_end, (num_deaths, left)
    return num_deaths


def main(folder: Path) -> None:
    three = [snapshot(1, 0.9), snapshot(2, 0.1)], snapshot(3, 0.2)
    num_deaths = kill_everywhere(folder, *three, allowed={(2, 1), (3, 1)})
    # The same step again, now with its score, where it is the only one.
    again = [snapshot(1, None)], snapshot(1, 0.5)
    num_deaths += kill_everywhere(folder, *again, allowed={(1, 1)})
    print(num_deaths)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
