"""The refusal to pack into the source itself, before anything is written.

Files are compared as they are on the disk, with all links followed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Iterator, Sequence

from mxtrain.core.errors import UsageError
from mxtrain.data.sources.item import Source


def refuse(source: Path, opened: Source, written: Sequence[Path]) -> None:
    """Raise UsageError where a file to be written is one that is read, or lies in a folder that is read.

    `source` is SOURCE as it was given, `opened` what it holds, and `written` all files that may be written.
    """
    replaced = {identity: path for path in written if (identity := _identity(path))}
    if replaced:  # or nobody need look at items, which may be millions
        for file in _files(source, opened):
            path = replaced.get(_identity(file) or (0, 0))
            if path:
                raise UsageError(
                    f"{path} is a part of the source, and would be written over: choose another OUT"
                )
    folders = _folders(source, opened)
    for path in written:
        parent = Path(os.path.realpath(path.parent))
        for folder in map(str, (parent, *parent.parents)):
            if folder in folders:
                raise UsageError(
                    f"{path} would lie in {folders[folder]}, which is the source: choose an OUT outside it"
                )


def _files(source: Path, opened: Source) -> Iterator[str | Path]:
    """Yield the files that are read."""
    yield from (source, *opened.files)
    if opened.path_of:
        yield from map(opened.path_of, opened.items)


def _identity(path: str | Path) -> tuple[int, int] | None:
    """Return what a file is on the disk, the same by all its names; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _folders(source: Path, opened: Source) -> dict[str, Path]:
    """Return the folders that are read, from real path to path: links may lead out of the source."""
    if not source.is_dir():
        return {}
    inner = {os.path.dirname(item.name) for item in opened.items} if opened.path_of else set()
    folders = {os.path.realpath(source / name): source / name for name in sorted(inner)}
    return {**folders, os.path.realpath(source): source}
