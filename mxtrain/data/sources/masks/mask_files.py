"""Masks in files of their own: pictures whose pixels are classes, by number or by colour.

Owns reading one, and the classes of a folder: classes.txt, a name a line, or labelmap.txt, as CVAT writes it, with a
colour for each. A palette's numbers are classes, whatever its colours are.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Mapping, NamedTuple, NoReturn, Tuple

import numpy as np
from PIL import Image

from mxtrain.core import plain_text, regular_files
from mxtrain.core.errors import DataError
from mxtrain.data.decode import orientation
from mxtrain.data.fields import Array
from mxtrain.data.masks.mask_format import IGNORED
from mxtrain.data.sources.item import BadItem
from mxtrain.data.sources.labels import check_class_name

NAMES, COLOURS = "classes.txt", "labelmap.txt"
Colour = Tuple[int, int, int]
OF_NUMBERS = ("P", "L", "1")  # modes of Pillow whose pixels are small numbers


class Classes(NamedTuple):
    """The names of classes, from 0 on, and their colours, where a file has some."""

    names: list[str]
    colours: Mapping[Colour, int] = {}
    files: tuple[Path, ...] = ()


def classes_of(*folders: Path) -> Classes | None:
    """Return the classes that a file in one of these folders names, the first that has one; None where none does."""
    for folder in folders:
        if (folder / COLOURS).is_file():
            return _of_colours(folder / COLOURS)
        if (folder / NAMES).is_file():
            path = folder / NAMES
            names = [line.strip() for line in _lines(path) if line.strip()]
            return Classes([check_class_name(name, str(path)) for name in names], {}, (path,))
    return None


def refuse_without_names(where: Path) -> NoReturn:
    """Refuse a source whose classes nothing names, with a DataError."""
    raise DataError(
        f"{where}: nothing names its classes; put {NAMES} there, a name a line, the first of class 0, or {COLOURS}, "
        "lines of name:red,green,blue"
    )


def read(path: Path, colours: Mapping[Colour, int], shift: int = 0) -> Array:
    """Return the classes of the pixels of a file; BadItem in words where it is no mask.

    With a `shift` that is added, as of data sets that count from 1, 0 does not count.
    """
    data = regular_files.read(str(path))
    if data.startswith(b"\xff\xd8"):
        raise BadItem(f"its mask {path.name} is a JPEG, which has lost classes at borders; give PNG")
    chunks = list(orientation.png_chunks(data))
    if chunks and chunks[-1][0] != b"IEND":  # other packages may have told Pillow to pass over it
        raise BadItem(f"its mask {path.name} is no whole picture: it is cut short")
    try:
        with Image.open(io.BytesIO(data)) as picture:
            if picture.mode in OF_NUMBERS:
                numbers: Array = np.array(picture, np.uint8)  # 0 and 1 of a picture of bits
            elif picture.mode in ("RGB", "RGBA"):
                numbers = _of_pixels(np.array(picture.convert("RGB")), colours, path)
            else:
                raise BadItem(f"its mask {path.name} has pixels of 16 bits or more ({picture.mode}); give 8")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        if isinstance(error, BadItem):
            raise
        raise BadItem(f"its mask {path.name} is no whole picture: {error}") from None
    if shift:
        counts = (numbers != 0) & (numbers != IGNORED)
        numbers = np.where(counts, numbers + shift, IGNORED).astype(np.uint8)
    return numbers


def _of_pixels(pixels: Array, colours: Mapping[Colour, int], path: Path) -> Array:
    """Return the classes of coloured pixels."""
    if not colours:
        raise BadItem(
            f"its mask {path.name} has colours, and nothing says whose; put {COLOURS} beside the folders"
        )
    codes = (pixels.astype(np.int64) * [1 << 16, 1 << 8, 1]).sum(axis=2)
    found, places = np.unique(codes, return_inverse=True)
    numbers = []
    for code in found.tolist():
        colour = (code >> 16, code >> 8 & 255, code & 255)
        if colour not in colours:
            raise BadItem(f"its mask {path.name} has the colour {colour}, of no class in {COLOURS}")
        numbers.append(colours[colour])
    mask: Array = np.array(numbers, np.uint8)[places].reshape(codes.shape)
    return mask


def _of_colours(path: Path) -> Classes:
    names: list[str] = []
    colours: dict[Colour, int] = {}
    for number, line in enumerate(_lines(path), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, rest = line.partition(":")
        parts = rest.partition(":")[0].split(",")
        if len(parts) != 3 or not all(part.strip().isdecimal() and int(part) < 256 for part in parts):
            raise DataError(f"{path}: line {number} has to be name:red,green,blue, numbers from 0 to 255")
        colour = (int(parts[0]), int(parts[1]), int(parts[2]))
        if colour in colours:
            raise DataError(
                f"{path}: line {number} has the colour of {names[colours[colour]]}; give each its own"
            )
        colours[colour] = len(names)
        names.append(check_class_name(name.strip(), str(path)))
    return Classes(names, colours, (path,))


def _lines(path: Path) -> list[str]:
    try:
        return plain_text.split_lines(regular_files.read(str(path)).decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text: save it as UTF-8") from None
