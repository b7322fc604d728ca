"""The interface of all sources: named items with labels, and a function that reads the bytes of one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence, Tuple, Union

from mxtrain.core import regular_files
from mxtrain.core.errors import DataError
from mxtrain.data import input_files
from mxtrain.data.arrays.array_fields import Layout
from mxtrain.data.boxes import box_labels
from mxtrain.data.fields import Array
from mxtrain.data.input_files import is_folder

Label = Union[int, float, Tuple[float, ...]]  # a class, another number, or one number for each output
IMAGE_SUFFIXES = input_files.PICTURES  # those that predict reads


class BoxLabel(Tuple[float, ...]):
    """A label of boxes, see mxtrain/data/boxes/box_labels.py."""

    @property
    def classes(self) -> set[int]:
        """The classes that the picture has."""
        return {int(number) for number in box_labels.boxes_of(self, 1, 1)[:, 4]}


class BadItem(ValueError):
    """The reason why one item of a source cannot be read; the others may be fine."""


class Item(NamedTuple):
    """One picture or document to pack."""

    name: str  # the same on every machine
    label: Label
    location: Any = None  # for the source's own `read`


class MadeItems(Sequence[Item]):
    """Items that are made as they are read: millions of them would fill memory."""

    def __init__(self, count: int, make: Callable[[int], Item]):
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return list(map(self._make, range(*position.indices(self._count))))
        if not -self._count <= position < self._count:
            raise IndexError(position)
        return self._make(position % self._count)


# From the name of an array and some items to its numbers, a row for each item.
Numbers = Callable[[str, Sequence[Item]], Array]


class Source(NamedTuple):
    """The items of a source, and all that packing has to know of it."""

    items: Sequence[Item]
    read: Callable[[Item], bytes]  # from any thread; BadItem, BadPicture or OSError if it cannot be read
    class_names: Sequence[str] | None = None
    warnings: Sequence[str] = ()  # about what was left out
    files: Sequence[Path] = ()  # the files that hold or list the items
    path_of: Callable[[Item], str] | None = None  # only where each item is a file of its own
    mask_path_of: Callable[[Item], str] | None = None  # and where its mask is; of one without "" does for it
    holds_text: bool = False
    holds_masks: bool = False  # behind pictures, in what is read
    is_tagged: bool = False  # text with a label for each word
    layout: Layout | None = None  # of arrays
    numbers: Numbers | None = None  # only where many items can be read at once
    origin_of: Callable[[Item], str | None] | None = None  # of a .rec: the name that an item was packed from

    @property
    def noun(self) -> str:
        """The plural by which messages call its items."""
        return "documents" if self.holds_text else "samples" if self.layout else "images"

    def display_name(self, item: Item) -> str:
        """Return the name of an item for messages, that of its origin where that is known."""
        return (self.origin_of and self.origin_of(item)) or item.name

    def stamps(self, item: Item) -> list[tuple[int, ...]]:
        """Return numbers that change when an item's own file, or that of its mask, does; none where it has no such."""
        paths = [each(item) for each in (self.path_of, self.mask_path_of) if each]
        return [file_stamp(path) for path in paths if path]

    def stamp(self, item: Item) -> tuple[int, ...]:
        """Return the stamps of an item as one."""
        return tuple(number for each in self.stamps(item) for number in each)


def file_stamp(path: str | Path) -> tuple[int, ...]:
    """Return size, modification time and inode of a file, or why there are none."""
    try:
        status = os.stat(path)
    except OSError as error:
        return (-(error.errno or 1),)
    return status.st_size, status.st_mtime_ns, status.st_ino


def visible(folder: str | Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder that are not hidden, sorted by name."""
    try:
        with os.scandir(folder) as entries:
            found = [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise DataError(f"cannot read folder {folder}: {error.strerror}") from None
    return sorted(found, key=lambda entry: entry.name)


def files_in(source: Path, suffixes: tuple[str, ...] = ("",)) -> list[Path]:
    """Return the source itself, or the files directly in it with these suffixes; OSError if one is no regular file."""
    if not source.is_dir():
        return [source]
    entries = [entry for entry in visible(source) if entry.name.lower().endswith(suffixes)]
    paths = [Path(entry.path) for entry in entries if not is_folder(entry)]
    for path in paths:
        regular_files.require(path)
    return paths


def read_at(path: Path, offset: int, num_bytes: int) -> bytes:
    """Read a part of a file, which is opened for it alone, so that any number of files and threads will do."""
    descriptor = regular_files.open_descriptor(path)
    try:
        data = os.pread(descriptor, num_bytes, offset)
    finally:
        os.close(descriptor)
    if len(data) < num_bytes:
        raise BadItem(f"{path.name} has become shorter since it was listed")
    return data
