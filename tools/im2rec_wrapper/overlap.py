"""What a pack reads is not what it writes: refused before anything is written.

Paths are held against each other as they are on the disk, whatever links lead there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Sequence

from mxtrain.core.errors import UsageError
from tools.im2rec_wrapper.sources.item import Source


def refuse(source: Path, found: Source, written: Sequence[Path]) -> None:
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
    """Those that are read; of files that are items, which may be millions, those with a name that is written."""
    files = {os.fspath(path) for path in (source, *found.files)}
    if found.path_of:
        names = tuple(path.name for path in written)
        files |= {found.path_of(item) for item in found.items if item.name.endswith(names)}
    return set(map(os.path.realpath, files))


def _folders(source: Path, found: Source) -> dict[str, Path]:
    """Those that are gone through, and how they are reached: links may lead out of the source."""
    if not source.is_dir():
        return {}
    inner = {os.path.dirname(item.name) for item in found.items} if found.path_of else set()
    folders = {os.path.realpath(source / name): source / name for name in sorted(inner)}
    return {**folders, os.path.realpath(source): source}
