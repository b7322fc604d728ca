"""What every kind of source comes down to: named items with labels, and a way to read each one's bytes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence, Tuple, Union

from mxtrain.core import regular_files
from mxtrain.core.errors import DataError

Label = Union[int, float, Tuple[float, ...]]  # a class, another number, or one number for each output
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif")


class BadItem(ValueError):
    """Why one item of a source cannot be read; the others may be fine."""


class Item(NamedTuple):
    name: str  # the same on every machine
    label: Label
    place: Any = None  # where its source finds it again


class Source(NamedTuple):
    items: list[Item]
    read: Callable[[Item], bytes]  # from any thread; BadItem, BadPicture or OSError if it cannot be read
    class_names: Sequence[str] | None = None
    remarks: Sequence[str] = ()  # what was left out, and why
    files: Sequence[Path] = ()  # those that hold or list the items
    path_of: Callable[[Item], str] | None = None  # where each item is a file of its own
    holds_text: bool = False
    origin_of: Callable[[Item], str | None] | None = None  # where each item was packed from before

    def told_name(self, item: Item) -> str:
        """How a message names the item; as far back as is known."""
        return (self.origin_of and self.origin_of(item)) or item.name

    def stamp(self, item: Item) -> tuple[int, ...]:
        """It changes when the item's own file does."""
        return file_stamp(self.path_of(item)) if self.path_of else ()


def file_stamp(path: str | Path) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError as error:
        return (-(error.errno or 1),)
    return status.st_size, status.st_mtime_ns, status.st_ino


def visible(folder: str | Path) -> list[os.DirEntry[str]]:
    """The entries of a folder by name, without hidden ones."""
    try:
        with os.scandir(folder) as entries:
            found = [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise DataError(f"cannot read folder {folder}: {error.strerror}") from None
    return sorted(found, key=lambda entry: entry.name)


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Also through links; one that leads round in a circle is none."""
    return os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir()


def files_in(source: Path, suffixes: tuple[str, ...] = ("",)) -> list[Path]:
    """The source itself, or the files directly in it whose names end so; OSError if one is none that can be read."""
    if not source.is_dir():
        return [source]
    entries = [entry for entry in visible(source) if entry.name.lower().endswith(suffixes)]
    paths = [Path(entry.path) for entry in entries if not is_folder(entry)]
    for path in paths:
        regular_files.require(path)
    return paths


def read_at(path: Path, offset: int, num_bytes: int) -> bytes:
    """These bytes of a file, opened for them alone, so that any number of files and threads will do."""
    descriptor = regular_files.descriptor(path)
    try:
        data = os.pread(descriptor, num_bytes, offset)
    finally:
        os.close(descriptor)
    if len(data) < num_bytes:
        raise BadItem(f"{path.name} has become shorter since it was listed")
    return data
