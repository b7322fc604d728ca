"""The refusal to pack into the source itself, before anything is written.

Paths are compared as they are on the disk, with all links followed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Sequence

from mxtrain.core.errors import UsageError

from .sources.item import Source


def refuse(source: Path, found: Source, written: Sequence[Path]) -> None:
    """Raise UsageError where a file to be written is one that is read, or lies in a folder that is read.

    `source` is SOURCE as it was given, `found` what it holds, and `written` all files that may be written.
    """
    files, folders = _files(source, found, written), _folders(source, found)
    for path in written:
        if os.path.realpath(path) in files:
            raise UsageError(f"{path} is a part of the source, and would be written over: choose another OUT")
        parent = Path(os.path.realpath(path.parent))
        for folder in map(str, (parent, *parent.parents)):
            if folder in folders:
                raise UsageError(
                    f"{path} would lie in {folders[folder]}, which is the source: choose an OUT outside it"
                )


def _files(source: Path, found: Source, written: Sequence[Path]) -> set[str]:
    """Return the files that are read; of items, which may be millions, only those with a name that is written."""
    files = {os.fspath(path) for path in (source, *found.files)}
    if found.path_of:
        names = tuple(path.name for path in written)
        files |= {found.path_of(item) for item in found.items if item.name.endswith(names)}
    return set(map(os.path.realpath, files))


def _folders(source: Path, found: Source) -> dict[str, Path]:
    """Return the folders that are read, from real path to path: links may lead out of the source."""
    if not source.is_dir():
        return {}
    inner = {os.path.dirname(item.name) for item in found.items} if found.path_of else set()
    folders = {os.path.realpath(source / name): source / name for name in sorted(inner)}
    return {**folders, os.path.realpath(source): source}
