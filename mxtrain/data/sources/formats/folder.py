"""The source of a folder with a folder of files per class, and of any list of image files."""

from __future__ import annotations

import os
from pathlib import Path

from mxtrain.core import regular_files
from mxtrain.core.errors import DataError
from mxtrain.data.input_files import is_folder
from mxtrain.data.sources.formats.walk import Walk
from mxtrain.data.sources.item import IMAGE_SUFFIXES, Item, Source, visible
from mxtrain.data.sources.labels import check_class_name


def read_folder(root: Path, suffixes: tuple[str, ...] = IMAGE_SUFFIXES, noun: str = "image") -> Source:
    """Read a folder of classes. Files may lie deeper than their class's folder; labels are in the order of names.

    Hidden files and folders are skipped; links are followed, but for those that `walk.py` refuses.
    """
    items: list[Item] = []
    class_names: list[str] = []
    warnings: list[str] = []
    folders, num_outside = _class_folders(root, suffixes)
    base = os.path.join(root, "")
    num_others = 0
    walk = Walk(root, folders)
    for folder in folders:
        paths = list(walk.files_of(folder))
        wanted = [path for path in paths if path.lower().endswith(suffixes)]
        num_others += len(paths) - len(wanted)
        if not wanted:
            warnings.append(f"class folder {folder.path} has no {noun}s and gets no label")
            continue
        items += [Item(path[len(base) :], len(class_names)) for path in wanted]
        class_names.append(check_class_name(folder.name, str(root)))
    if num_outside:
        warnings.append(f"left out {num_outside} {noun}(s) directly in {root}, outside any class folder")
    if walk.num_skipped_links:
        warnings.append(f"left out {walk.num_skipped_links} link(s) to folders that are gone through already")
    if num_others:
        warnings.append(f"left out {num_others} file(s) that are no {noun}s by their names")
    if not items:
        known_suffixes = " ".join(suffixes)
        raise DataError(
            f"{root} has no {noun}s ({known_suffixes}) in class folders: put each class in a folder of its name"
        )
    return from_files(root, items, class_names, warnings)


def from_files(
    root: Path,
    items: list[Item],
    class_names: list[str] | None,
    warnings: list[str],
    listed_in: Path | None = None,
) -> Source:
    """Return the source of items that are files, whose names are paths relative to `root`.

    `listed_in` is the list that they come from, if any.
    """
    base = str(root)
    return Source(
        items,
        lambda item: regular_files.read(os.path.join(base, item.name)),
        class_names,
        warnings,
        [listed_in] if listed_in else [],
        lambda item: os.path.join(base, item.name),
    )


def _class_folders(root: Path, suffixes: tuple[str, ...]) -> tuple[list[os.DirEntry[str]], int]:
    """Return the folders of the classes, by name, and the number of wanted files beside them."""
    entries = visible(root)
    folders = [entry for entry in entries if is_folder(entry)]
    return folders, sum(entry.name.lower().endswith(suffixes) for entry in entries if not is_folder(entry))
