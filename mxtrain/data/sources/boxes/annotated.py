"""Pictures with boxes, whatever listed them: from annotations to the items of a source.

Owns the checks of boxes against their pictures, the classes, and the label of a record (`mxtrain/data/boxes/`). What is
wrong with one picture makes it a bad item, which names the file; what is wrong with a whole file ends the pack.
"""

from __future__ import annotations

import io
import math
import os
from pathlib import Path
from typing import NamedTuple, Sequence, Tuple

import numpy as np
from PIL import Image

from mxtrain.core import regular_files
from mxtrain.core.errors import DataError
from mxtrain.data.boxes import box_labels
from mxtrain.data.decode import orientation
from mxtrain.data.sources.item import BadItem, BoxLabel, Item, Source
from mxtrain.data.sources.labels import check_class_name

NO_BOXES = BoxLabel(box_labels.label_of(np.zeros((0, 6)), 1, 1).tolist())
Size = Tuple[int, int]  # width, height
BEYOND = 1.0  # a pixel that rounding may put a corner outside its picture


class Box(NamedTuple):
    """A box in pixels of its picture, or in shares of its sides."""

    class_name: str
    left: float
    top: float
    right: float
    bottom: float
    flag: int = box_labels.NORMAL


class Annotated(NamedTuple):
    """A picture, by its path from the root, with its boxes, or what is wrong with these."""

    name: str
    boxes: Sequence[Box] = ()
    size: Size | None = None  # as the annotation has it; None: as the picture itself says
    in_shares: bool = False
    problem: str = ""


def source_of(
    where: Path,
    root: Path,
    pictures: Sequence[Annotated],
    class_names: Sequence[str] | None = None,
    files: Sequence[Path] = (),
    warnings: Sequence[str] = (),
) -> Source:
    """Return the source of annotated pictures.

    Args:
        where: what was read, for messages.
        root: the folder that the names of pictures begin at.
        pictures: in the order in which they were listed.
        class_names: the classes, if something lists them; else they are those of the boxes, in the order of names.
        files: what was read, but for pictures.
        warnings: about what was left out.

    Returns:
        The source; DataError where nothing could be packed, or a name stands for two pictures.
    """
    refuse_ill_listed(where, [each.name for each in pictures], "put all its boxes in one place")
    names = list(class_names or ()) or _names_of(where, pictures)
    number_of: dict[str, int] = {name: number for number, name in enumerate(names)}
    base = str(root)
    items, notes = [], list(warnings)
    num_clipped = 0
    for each in pictures:
        label, problem, is_clipped = _labelled(each, base, number_of)
        num_clipped += is_clipped
        items.append(Item(each.name, label, (each.size, problem)))
    if num_clipped:
        notes.append(
            f"{num_clipped} picture(s) had boxes that reach outside; these end at the picture's sides now"
        )

    def read(item: Item) -> bytes:
        size, problem = item.location
        if problem:
            raise BadItem(problem)
        data = regular_files.read(os.path.join(base, item.name))
        if size is not None:
            _check_size(data, size)
        return data

    return Source(items, read, names, notes, list(files), lambda item: os.path.join(base, item.name))


def picture_size(data: bytes) -> Size:
    """Return the width and height of an encoded picture as it is decoded, upright; BadItem where it is none."""
    try:
        with Image.open(io.BytesIO(data)) as picture:
            width, height = picture.size
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise BadItem(f"it is no picture: {error}") from None
    height, width = orientation.upright_size(height, width, orientation.orientation_of(data))
    return width, height


def _labelled(picture: Annotated, base: str, number_of: dict[str, int]) -> tuple[BoxLabel, str, bool]:
    """Return the label of a picture, what is wrong with it, and whether boxes were cut."""
    if picture.problem:
        return NO_BOXES, picture.problem, False
    try:
        size = (1, 1) if picture.in_shares else picture.size or _size_on_disk(base, picture.name)
        rows = [_row(box, size, picture.in_shares, number_of) for box in picture.boxes]
    except BadItem as bad:
        return NO_BOXES, str(bad), False
    boxes = np.array([row for row, _ in rows], np.float64).reshape(-1, 6)
    label = BoxLabel(box_labels.label_of(boxes, *size).tolist())
    return label, "", any(is_cut for _, is_cut in rows)


def _row(box: Box, size: Size, in_shares: bool, number_of: dict[str, int]) -> tuple[list[float], bool]:
    """Return a box of memory, cut where it reaches outside; BadItem in words for one that is none."""
    corners = box[1:5]
    shown = f"box ({', '.join(f'{corner:g}' for corner in corners)}) of {box.class_name}"
    if box.class_name not in number_of:
        raise BadItem(f"{shown}: no such class; known are {', '.join(list(number_of)[:10])}")
    if not all(map(math.isfinite, corners)):
        raise BadItem(f"{shown}: has a corner that is no finite number")
    left, top, right, bottom = corners
    if right < left or bottom < top:
        raise BadItem(f"{shown}: its right or lower side is before the other; swap them")
    width, height = size
    if in_shares and max(map(abs, corners)) > box_labels.MOST_SHARE:
        raise BadItem(f"{shown}: in pixels, and has to be in shares of the picture's width and height")
    cut = [max(left, 0), max(top, 0), min(right, width), min(bottom, height)]
    if cut[2] <= cut[0] or cut[3] <= cut[1]:
        where = (
            "empty" if right == left or bottom == top else f"outside its picture, which is {width} x {height}"
        )
        raise BadItem(f"{shown}: {where}; take it out")
    beyond = BEYOND / 100 if in_shares else BEYOND
    is_cut = max(abs(one - other) for one, other in zip(cut, corners)) > beyond
    return [*cut, number_of[box.class_name], box.flag], is_cut


def _size_on_disk(base: str, name: str) -> Size:
    try:
        return picture_size(regular_files.read(os.path.join(base, name)))
    except OSError as error:
        raise BadItem(f"cannot be read: {error.strerror}") from None


def _check_size(data: bytes, size: Size) -> None:
    """Compare what the annotation says with the picture; BadItem where they differ."""
    width, height = picture_size(data)
    if (width, height) != tuple(size):
        turned = ", turned by its EXIF" if (height, width) == tuple(size) else ""
        raise BadItem(
            f"is {width} x {height} pixels{turned}, and its annotation is of {size[0]} x {size[1]}; annotate it as "
            "it is shown"
        )


def _names_of(where: Path, pictures: Sequence[Annotated]) -> list[str]:
    """Return the names of all classes that boxes have, in their order."""
    found = sorted({box.class_name for each in pictures for box in each.boxes})
    if not found:
        wrong = next((f"{each.name}: {each.problem}" for each in pictures if each.problem), "")
        raise DataError(f"{where}: {wrong or 'no picture has a box; nothing to learn from'}")
    return [check_class_name(name, str(where)) for name in found]


def refuse_ill_listed(where: Path, names: Sequence[str], advice: str) -> None:
    """Raise DataError where no pictures are listed, or one of this name twice, with the `advice` of what to do then."""
    if not names:
        raise DataError(f"{where}: lists no picture; nothing to pack")
    twice = first_twice(names)
    if twice is not None:
        raise DataError(f"{where}: lists {twice} twice; {advice}")


def first_twice(names: Sequence[str]) -> str | None:
    """Return the first name that is there a second time; None where each is there once."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def number(text: object, what: str) -> float:
    """Return a number of an annotation; BadItem where it is none."""
    try:
        return float(str(text).strip())
    except ValueError:
        raise BadItem(f"{what} is {str(text)[:40]!r}, no number") from None
