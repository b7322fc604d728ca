"""The source of a CSV or TSV of pictures and masks: columns `picture` and `mask`, or the first two."""

from __future__ import annotations

import functools
import io
from pathlib import Path

from mxtrain.core import regular_files
from mxtrain.core.errors import DataError
from mxtrain.data.arrays import table_files
from mxtrain.data.sources.item import Source
from mxtrain.data.sources.masks import mask_files
from mxtrain.data.sources.masks.folders import read_file
from mxtrain.data.sources.masks.masked import MaskedPicture, source_of

PICTURE, MASK = "picture", "mask"


def read_list(path: Path, root: Path | None) -> Source:
    """Read a list; paths in it begin at --root, or at its own folder. DataError where it has no two columns."""
    try:
        text = regular_files.read(str(path)).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text: save it as UTF-8") from None
    separator = "\t" if path.suffix == ".tsv" else ","
    rows = list(table_files.numbered_csv_rows(path, io.StringIO(text), separator))
    names = [cell.strip() for cell in rows[0][1]] if rows else []
    places = (0, 1)
    if PICTURE in names and MASK in names:
        places, rows = (names.index(PICTURE), names.index(MASK)), rows[1:]
    short = next((line for line, row in rows if len(row) <= max(places)), None)
    if short is not None:
        raise DataError(f"{path}: line {short} has no two cells, those of a picture and of its mask")
    base = root or path.absolute().parent
    classes = mask_files.classes_of(path.absolute().parent, base)
    if classes is None:
        mask_files.refuse_without_names(path.absolute().parent)
    pictures = [
        MaskedPicture(
            row[places[0]].strip(),
            functools.partial(read_file, path=base / row[places[1]].strip(), classes=classes),
            mask_path=str(base / row[places[1]].strip()),
        )
        for _, row in rows
    ]
    return source_of(path, base, pictures, classes.names, [path, *classes.files])
