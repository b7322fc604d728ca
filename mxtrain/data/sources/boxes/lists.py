"""The sources of lists with boxes: CSV or TSV with a row for each box, and MXNet's .lst and .rec with labels of boxes.

.csv .tsv   a line of names: filename (or path, image), class (or label), xmin, ymin, xmax, ymax in pixels, perhaps
            width and height; a row with nothing but a name is a picture without boxes
.lst        number <TAB> A <TAB> B <TAB> ... <TAB> path, as ImageDetRecordIter has it
.rec        with such labels
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from mxtrain.core import plain_text, regular_files
from mxtrain.core.errors import DataError
from mxtrain.data.arrays.table_files import numbered_csv_rows
from mxtrain.data.boxes import box_labels
from mxtrain.data.records.record_file import open_records
from mxtrain.data.sources.boxes.annotated import Annotated, Box, number, source_of
from mxtrain.data.sources.item import BadItem, Item, Source

NAMES = {"picture": ("filename", "path", "image", "file"), "class": ("class", "label", "name")}
CORNERS = ("xmin", "ymin", "xmax", "ymax")
SHORT_CORNERS = ("x1", "y1", "x2", "y2")


def read_csv(path: Path, root: Path | None) -> Source:
    """Read a table of boxes; DataError where a column is missing."""
    text = _text(path)
    first_line = text.split("\n", 1)[0]
    separator = max("\t,;", key=first_line.count)
    numbered = numbered_csv_rows(path, io.StringIO(text), separator)
    rows = [(line, [cell.strip() for cell in row]) for line, row in numbered]
    rows = [(line, row) for line, row in rows if any(row)]
    columns = _columns(path, [cell.lower() for cell in rows[0][1]] if rows else [])
    boxes: dict[str, list[Box]] = {}
    sizes: dict[str, tuple[int, int]] = {}
    problems: dict[str, str] = {}
    for line, row in rows[1:]:
        cells = {name: row[place] if place < len(row) else "" for name, place in columns.items()}
        picture = cells["picture"]
        if not picture or "\0" in picture:
            raise DataError(f"{path}: line {line} names no picture")
        own = boxes.setdefault(picture, [])
        if not any(cells[name] for name in CORNERS):
            continue
        try:
            left, top, right, bottom = (number(cells[name], f"its {name}") for name in CORNERS)
            if not cells["class"]:
                raise BadItem("it has no class")
            own.append(Box(cells["class"], left, top, right, bottom))
            if cells.get("width") and cells.get("height"):
                sizes[picture] = int(number(cells["width"], "width")), int(number(cells["height"], "height"))
        except BadItem as bad:
            problems.setdefault(picture, f"{path.name}: line {line}: {bad}")
    pictures = [
        Annotated(name, own, sizes.get(name), problem=problems.get(name, "")) for name, own in boxes.items()
    ]
    return source_of(path, root or path.parent, pictures, files=[path])


def read_lst(path: Path, root: Path | None) -> Source:
    """Read a .lst; DataError names a line that is none of a picture with boxes."""
    pictures = []
    classes: set[int] = set()
    for line, text in enumerate(plain_text.split_lines(_text(path)), 1):
        cells = text.strip(" \t").split("\t")
        if cells == [""]:
            continue
        numbers = [plain_text.parse_number(cell) for cell in cells[1:-1]]
        if len(cells) < 4 or None in numbers:
            raise DataError(f"{path}: line {line} is not `number<TAB>A<TAB>B<TAB>...<TAB>path`: mend it")
        picture, problem = _of_label(cells[-1], [each for each in numbers if each is not None])
        classes |= {int(box.class_name) for box in picture.boxes}
        pictures.append(picture._replace(problem=f"line {line}: {problem}" if problem else ""))
    return source_of(path, root or path.parent, pictures, _numbered(classes), [path])


def read_rec(path: Path) -> Source:
    """Read a .rec whose labels are boxes."""
    records = open_records(path)
    names = records.class_names
    pictures = []
    for position, label in enumerate(records.label_rows()):
        picture, problem = _of_label(f"{path.name}:{records.keys[position]}", label)
        pictures.append(picture._replace(problem=problem))
    classes = {int(box.class_name) for each in pictures for box in each.boxes}
    if names:
        pictures = [each._replace(boxes=[_named(box, names) for box in each.boxes]) for each in pictures]
    source = source_of(path, path.parent, pictures, names or _numbered(classes))
    positions = {item.name: position for position, item in enumerate(source.items)}

    def read(item: Item) -> bytes:
        _, problem = item.location
        if problem:
            raise BadItem(problem)
        try:
            return bytes(records.read(positions[item.name]).payload)
        except DataError as error:
            raise BadItem(str(error)) from None

    return source._replace(
        read=read,
        path_of=None,
        files=[path],
        origin_of=lambda item: records.source_names().of(int(records.keys[positions[item.name]])),
    )


def _of_label(name: str, label: Any) -> tuple[Annotated, str]:
    """Return a picture by its label of boxes, and what is wrong with this."""
    try:
        rows = box_labels.boxes_of(np.array(label), 1, 1)
    except ValueError as bad:
        return Annotated(name, in_shares=True), str(bad)
    boxes = [
        Box(str(int(which)), left, top, right, bottom, int(flag))
        for left, top, right, bottom, which, flag in rows.tolist()
    ]
    return Annotated(name, boxes, in_shares=True), ""


def _named(box: Box, names: Sequence[str]) -> Box:
    place = int(box.class_name)
    return box._replace(class_name=names[place] if 0 <= place < len(names) else box.class_name)


def _numbered(classes: set[int]) -> list[str]:
    return [str(each) for each in range(max(classes, default=-1) + 1)]


def _columns(path: Path, header: list[str]) -> dict[str, int]:
    """Return the place of each column that counts."""
    found: dict[str, int] = {}
    for what, names in NAMES.items():
        known = [header.index(name) for name in names if name in header]
        if not known:
            raise DataError(
                f"{path}: its first line has no column {' or '.join(names)}; call the {what}'s so"
            )
        found[what] = known[0]
    for corner, short in zip(CORNERS, SHORT_CORNERS):
        if corner not in header and short not in header:
            raise DataError(f"{path}: its first line has no column {corner} or {short}, in pixels")
        found[corner] = header.index(corner if corner in header else short)
    return {**found, **{name: header.index(name) for name in ("width", "height") if name in header}}


def _text(path: Path) -> str:
    try:
        return regular_files.read(str(path)).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text: save it as UTF-8") from None
