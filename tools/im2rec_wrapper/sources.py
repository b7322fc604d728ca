"""What there is to pack: from a source on disk to named items with labels.

Reading an item's bytes is left to whoever wants them; deciding where it goes is `order.py`'s part.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Callable, Iterator, NamedTuple

from mxtrain.errors import DataError

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp")


class Item(NamedTuple):
    name: str  # unique in its source, and the same on every machine
    label: int
    read: Callable[[], bytes]


class Source(NamedTuple):
    items: list[Item]
    class_names: list[str]
    remarks: list[str]  # what was left out, and why


def read_folder(root: Path) -> Source:
    """A folder with a folder per class, whose images may lie deeper. Classes get their labels in order of name.

    Hidden files and folders are skipped, links are followed.
    """
    if not root.is_dir():
        raise DataError(f"{root} " + ("is not a folder of images" if root.exists() else "does not exist"))
    items: list[Item] = []
    class_names: list[str] = []
    remarks: list[str] = []
    folders, num_outside = _class_folders(root)
    num_others = 0
    for folder in folders:
        paths = list(_files_under(folder.path, frozenset()))
        images = [path for path in paths if path.lower().endswith(IMAGE_SUFFIXES)]
        num_others += len(paths) - len(images)
        if not images:
            remarks.append(f"class folder {folder.path} has no images and gets no label")
            continue
        for path in images:
            name = os.path.relpath(path, root)
            items.append(Item(name, len(class_names), functools.partial(_read_file, path)))
        class_names.append(_as_class_name(folder))
    if num_outside:
        remarks.append(f"left out {num_outside} image(s) directly in {root}, outside any class folder")
    if num_others:
        remarks.append(f"left out {num_others} file(s) that are no images by their names")
    if not items:
        kinds = " ".join(IMAGE_SUFFIXES)
        raise DataError(
            f"{root} has no images ({kinds}) in class folders: put each class in a folder of its name"
        )
    return Source(items, class_names, remarks)


def _class_folders(root: Path) -> tuple[list[os.DirEntry[str]], int]:
    """The folders of the classes, by name, and how many images lie beside them."""
    entries = _visible(str(root))
    folders = [entry for entry in entries if entry.is_dir()]
    return folders, sum(entry.name.lower().endswith(IMAGE_SUFFIXES) for entry in entries if entry.is_file())


def _files_under(folder: str, above: frozenset[tuple[int, int]]) -> Iterator[str]:
    status = os.stat(folder)
    identity = (status.st_dev, status.st_ino)
    if identity in above:  # a link to a folder that holds it
        return
    for entry in _visible(folder):
        if entry.is_dir():
            yield from _files_under(entry.path, above | {identity})
        else:
            yield entry.path


def _visible(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            visible = [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise DataError(f"cannot read folder {folder}: {error.strerror}") from None
    return sorted(visible, key=lambda entry: entry.name)


def _as_class_name(folder: os.DirEntry[str]) -> str:
    """The folder's name, if a line of a class list can hold it."""
    try:
        folder.name.encode("utf-8")
    except UnicodeEncodeError:
        raise DataError(f"class folder {folder.path!r} has a name that is not UTF-8: rename it") from None
    if len(folder.name.splitlines()) > 1 or "\t" in folder.name:
        raise DataError(f"class folder {folder.path!r} has a tab or a line break in its name: rename it")
    return folder.name


def _read_file(path: str) -> bytes:
    return Path(path).read_bytes()
