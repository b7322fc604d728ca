"""Files to write that a user names, and what none of them may replace: an input by any name, a part of a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Iterator

from mxtrain.core.errors import UsageError

RUN_PARTS = (
    "config.yaml",
    "environment.json",
    "metrics.jsonl",
    "metrics.csv",
    "checkpoints",
    "augmented",
    "logs/*",
)
CHECKPOINT_PARTS = ("*.params", "state.json", "manifest.json")  # of one that was copied alone


def refuse_input(flag: str, out: Path | None, path: str | os.PathLike[str] | int) -> None:
    """Refuse a file to write that is also one to read, by its path or descriptor, with a UsageError."""
    if out is not None and _is_same(out, path):
        raise UsageError(f"{flag} {out}: is an input, and would be replaced; give another name")


def refuse_part_of_run(flag: str, out: Path | None, folder: Path) -> None:
    """Refuse a file to write that the run consists of whose folder this is, or a folder in its checkpoints/."""
    run = folder.parent.parent if folder.parent.name == "checkpoints" else folder
    if out is not None and os.path.exists(out) and any(_is_same(out, path) for path in _files_of_run(run)):
        raise UsageError(
            f"{flag} {out}: is a part of the run {run}, and would be replaced; give another name"
        )


def _files_of_run(folder: Path) -> Iterator[Path]:
    for pattern in (*RUN_PARTS, *CHECKPOINT_PARTS):
        for part in folder.glob(pattern):
            yield from part.rglob("*") if part.is_dir() else [part]


def _is_same(one: str | os.PathLike[str], other: str | os.PathLike[str] | int) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them is not there
        return False
