"""The sources of lists of image files with their labels: MXNet's .lst, and CSV or TSV.

    .lst        number <TAB> label [<TAB> label ...] <TAB> path
    .csv .tsv   path, label [, label ...]; a first line whose first cell names no image is a header

Paths are relative to --root, by default the list's own folder.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import List, Tuple

from mxtrain.core import plain_text
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays.table_files import numbered_csv_rows
from mxtrain.data.sources.formats.folder import from_files
from mxtrain.data.sources.item import IMAGE_SUFFIXES, Item, Source
from mxtrain.data.sources.labels import RawLabels, resolve_labels

JOINT = ";"  # between the classes that a cell lists
Rows = List[Tuple[str, RawLabels]]


def read_lst(path: Path, root: Path | None, multi_label: bool) -> Source:
    """Read a .lst; DataError names the first malformed line."""
    rows: Rows = []
    for number, line in enumerate(plain_text.split_lines(_text(path)), 1):
        cells = line.strip(" \t").split("\t")
        if cells == [""]:
            continue
        if len(cells) < 3:
            raise DataError(f"{path}: line {number} is not `number<TAB>label<TAB>path`: mend it")
        labels = [plain_text.parse_number(cell) for cell in cells[1:-1]]
        if None in labels:
            raise DataError(f"{path}: line {number} has a label that is no number: mend it")
        rows.append((cells[-1], tuple(label for label in labels if label is not None)))
    return _source(path, rows, root, multi_label, None)


def _names_image(cell: str, root: Path) -> bool:
    """Return whether a cell names a picture, by its suffix or because such a file is there."""
    return cell.lower().endswith(IMAGE_SUFFIXES) or os.path.isfile(root / cell)


def read_table(path: Path, root: Path | None, multi_label: bool) -> Source:
    """Read a CSV or TSV; DataError names the first malformed line."""
    text = _text(path)
    first_line = text.split("\n", 1)[0]
    separator = max("\t,;", key=first_line.count)
    numbered = [
        (number, [name.strip(" \t"), *map(str.strip, labels)])
        for number, (name, *labels) in numbered_csv_rows(path, io.StringIO(text), separator)
    ]
    numbered = [(number, cells) for number, cells in numbered if any(cells)]
    has_header = bool(numbered) and not _names_image(numbered[0][1][0], root or path.parent)
    header = numbered.pop(0)[1] if has_header else None
    lines = [cells for _, cells in numbered]
    if header and lines and plain_text.parse_number(lines[0][0]) is not None:
        raise UsageError(
            f"{path}: its first column has numbers, not names of images: say what is to be predicted with --target, "
            "or --from arrays"
        )
    for number, cells in numbered:
        if len(cells) < 2 or not cells[0]:
            raise DataError(f"{path}: line {number} is not `path{separator}label`: mend it")
    are_lists = (
        multi_label and separator != JOINT and any(JOINT in cell for cells in lines for cell in cells[1:])
    )
    if are_lists:
        lines = [
            [cells[0], *(part.strip() for cell in cells[1:] for part in cell.split(JOINT))] for cells in lines
        ]
    rows: Rows = [(cells[0], tuple(cell for cell in cells[1:] if cell)) for cells in lines]
    return _source(path, rows, root, multi_label, header, are_lists)


def _source(
    path: Path,
    rows: Rows,
    root: Path | None,
    multi_label: bool,
    header: list[str] | None,
    are_lists: bool = False,
) -> Source:
    if any("\0" in name for name, _ in rows):
        raise DataError(f"{path}: a path in it has a NUL character, which no file's name can have: mend it")
    outputs = header[1:] if header and multi_label else None
    labels, class_names = resolve_labels([label for _, label in rows], path, multi_label, outputs, are_lists)
    items = [Item(name, label) for (name, _), label in zip(rows, labels)]
    return from_files(root or path.parent, items, class_names, [], listed_in=path)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text: save it as UTF-8") from None
