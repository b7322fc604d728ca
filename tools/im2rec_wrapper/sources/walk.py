"""The files of each class in a folder of classes, over links: none of another class's, and no folder twice.

A link may lead to a file, or to a folder outside the source. One that leads to the source itself, to what holds it, or
into another class would pack that class's pictures as this one's: it is refused. So are two classes with links to
the same folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Iterator, NamedTuple, NoReturn, Sequence

from mxtrain.core.errors import DataError
from tools.im2rec_wrapper.sources.item import is_folder, visible


class _Seen(NamedTuple):
    class_name: str
    folder: str


class Walk:
    """Goes through the class folders of `root`, one after the other."""

    def __init__(self, root: Path, folders: Sequence[os.DirEntry[str]]):
        self.num_again = 0  # links to folders of the same class that have been gone through, or are just now
        real_root = Path(os.path.realpath(root))
        self._holds_source = {str(real_root), *map(str, real_root.parents)}
        self._class_of = {os.path.realpath(folder.path): folder.name for folder in folders}
        self._seen: dict[tuple[int, int], _Seen] = {}

    def files_of(self, folder: os.DirEntry[str]) -> Iterator[str]:
        """All files of a class, those in folders of folders too, by name."""
        if folder.is_symlink():
            self._refuse_astray(folder.path, folder.name)
        return self._files_under(folder.path, folder.name)

    def _files_under(self, folder: str, class_name: str) -> Iterator[str]:
        status = os.stat(folder)
        first = self._seen.setdefault((status.st_dev, status.st_ino), _Seen(class_name, folder))
        if first.class_name != class_name:
            _refuse(folder, f"is the same folder as {first.folder}, of another class")
        if first.folder != folder:
            self.num_again += 1
            return
        for entry in visible(folder):
            if entry.is_symlink():
                self._refuse_astray(entry.path, class_name)
            if is_folder(entry):
                yield from self._files_under(entry.path, class_name)
            else:
                yield entry.path

    def _refuse_astray(self, link: str, class_name: str) -> None:
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
