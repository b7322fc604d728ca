"""The walk through a folder of classes, following links: no file of another class, and no folder twice.

A link may lead to a file, or to a folder outside the source. Refused are links to the source itself, to a folder that
holds it, or into another class, which would pack other classes' pictures as this one's, and links of two classes to
the same folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Iterator, NamedTuple, NoReturn, Sequence

from mxtrain.core.errors import DataError
from mxtrain.data.input_files import is_folder
from mxtrain.data.sources.item import visible


class _Seen(NamedTuple):
    class_name: str
    folder: str


class Walk:
    """The walk through the class `folders` of `root`, one after the other."""

    def __init__(self, root: Path, folders: Sequence[os.DirEntry[str]]):
        self.num_skipped_links = 0  # links to folders of the same class that were entered already
        real_root = Path(os.path.realpath(root))
        self._holds_source = {str(real_root), *map(str, real_root.parents)}
        self._class_of = {os.path.realpath(folder.path): folder.name for folder in folders}
        self._seen: dict[tuple[int, int], _Seen] = {}

    def files_of(self, folder: os.DirEntry[str]) -> Iterator[str]:
        """Yield the paths of all files of a class, at any depth, sorted by name."""
        if folder.is_symlink():
            self._refuse_wrong_target(folder.path, folder.name)
        return self._files_under(folder.path, folder.name)

    def _files_under(self, folder: str, class_name: str) -> Iterator[str]:
        status = os.stat(folder)
        first = self._seen.setdefault((status.st_dev, status.st_ino), _Seen(class_name, folder))
        if first.class_name != class_name:
            _refuse(folder, f"is the same folder as {first.folder}, of another class")
        if first.folder != folder:
            self.num_skipped_links += 1
            return
        for entry in visible(folder):
            if entry.is_symlink():
                self._refuse_wrong_target(entry.path, class_name)
            if is_folder(entry):
                yield from self._files_under(entry.path, class_name)
            else:
                yield entry.path

    def _refuse_wrong_target(self, link: str, class_name: str) -> None:
        end = os.path.realpath(link)
        if end in self._holds_source:
            _refuse(link, f"is a link to {end}, which is or holds the source itself")
        while end != os.path.dirname(end):
            other = self._class_of.get(end, class_name)
            if other != class_name:
                _refuse(link, f"is a link into class {other}")
            end = os.path.dirname(end)


def _refuse(path: str, reason: str) -> NoReturn:
    raise DataError(f"{path} {reason}, whose pictures would be packed as this class's: remove it")
