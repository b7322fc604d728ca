"""The source of YOLO's text files: one for each picture, with a line `class x y width height` for each box.

    images/train/*.jpg   labels/train/*.txt   data.yaml

Numbers are shares of the picture's sides, of the box's middle and size. A text lies beside its picture, or where the
last folder `images` of its path is called `labels`; a picture without one has no boxes. Names of classes are in
data.yaml or classes.txt, of the folder or up to three above it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import yaml

from mxtrain.core import plain_text, regular_files
from mxtrain.core.errors import DataError
from mxtrain.data.sources.boxes.annotated import Annotated, Box, number, source_of
from mxtrain.data.sources.formats.walk import Walk
from mxtrain.data.sources.item import IMAGE_SUFFIXES, BadItem, Source, visible
from mxtrain.data.sources.labels import check_class_name

LISTS = ("data.yaml", "dataset.yaml", "classes.txt", "obj.names")


class YoloFolder(NamedTuple):
    """A folder of pictures, each with its text or none, and the classes, with the file that names them."""

    names_in: Path
    names: list[str]
    pictures: list[tuple[str, Path | None]]


def read_folder(path: Path) -> YoloFolder:
    """Read which pictures and texts there are; DataError where nothing names the classes."""
    if not path.is_dir():
        raise DataError(f"{path}: is no folder; give that of the pictures, such as images/train")
    names_in, names = _names(path.absolute())
    pictures = [(os.path.relpath(picture, path), _text_of(picture)) for picture in _pictures(path)]
    return YoloFolder(names_in, names, pictures)


def read_yolo(path: Path) -> Source:
    """Read a folder of pictures; DataError where nothing names its classes."""
    names_in, names, pictures = read_folder(path)
    found, files = [], [names_in]
    for shown, text in pictures:
        if text is None:
            found.append(Annotated(shown, in_shares=True))
            continue
        files.append(text)
        try:
            boxes = _boxes(regular_files.read(str(text)), names)
            found.append(Annotated(shown, boxes, in_shares=True))
        except BadItem as bad:
            found.append(Annotated(shown, problem=f"{text.name}: {bad}"))
    return source_of(path, path, found, names, files)


def _pictures(root: Path) -> list[Path]:
    walk = Walk(root, [entry for entry in visible(root) if entry.is_dir()])
    inside = [Path(entry.path) for entry in visible(root) if not entry.is_dir()]
    deeper = [Path(each) for entry in visible(root) if entry.is_dir() for each in walk.files_of(entry)]
    return [each for each in [*inside, *deeper] if each.name.lower().endswith(IMAGE_SUFFIXES)]


def _text_of(picture: Path) -> Path | None:
    """Return the text that belongs to a picture, None where there is none."""
    parts = list(picture.parts)
    places = [picture.with_suffix(".txt")]
    if "images" in parts[:-1]:
        at = len(parts) - 2 - parts[:-1][::-1].index("images")
        places.append(Path(*parts[:at], "labels", *parts[at + 1 :]).with_suffix(".txt"))
    return next((each for each in places if each.is_file()), None)


def _boxes(content: bytes, names: list[str]) -> list[Box]:
    try:
        lines = plain_text.split_lines(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise BadItem("is not UTF-8 text") from None
    found = []
    for place, line in enumerate(lines, 1):
        cells = line.split()
        if not cells:
            continue
        if len(cells) != 5:
            raise BadItem(f"line {place} has {len(cells)} numbers, and `class x y width height` has 5")
        which, x, y, width, height = (number(cell, f"a cell of line {place}") for cell in cells)
        if which % 1 or not 0 <= which < len(names):
            raise BadItem(f"line {place} has the class {which:g}, and there are {len(names)}, from 0")
        box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
        found.append(Box(names[int(which)], *box))
    return found


def _names(folder: Path) -> tuple[Path, list[str]]:
    """Return the file that names the classes, and their names in order."""
    for place in [folder, *list(folder.parents)[:3]]:
        for name in LISTS:
            path = place / name
            if path.is_file():
                return path, [check_class_name(each, str(path)) for each in _listed(path)]
    raise DataError(
        f"{folder}: neither it nor a folder above has {' or '.join(LISTS)}, which name the classes"
    )


def _listed(path: Path) -> list[str]:
    text = regular_files.read(str(path)).decode("utf-8-sig", "replace")
    if path.suffix != ".yaml":
        return [line.strip() for line in plain_text.split_lines(text) if line.strip()]
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise DataError(f"{path} is no YAML: {' '.join(str(error).split())}") from None
    names = content.get("names") if isinstance(content, dict) else None
    if isinstance(names, dict) and sorted(names) == list(range(len(names))):
        names = [names[key] for key in sorted(names)]
    if not isinstance(names, list) or not names:
        raise DataError(f"{path}: has no `names`, a list of the classes")
    return [str(name) for name in names]
