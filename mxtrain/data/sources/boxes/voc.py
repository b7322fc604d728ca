"""The source of Pascal VOC's layout: an XML file for each picture, and lists of which belong to a set.

    VOC2007/Annotations/*.xml  VOC2007/JPEGImages/*.jpg  VOC2007/ImageSets/Main/trainval.txt

It is a folder, of which all annotations are packed, or one of its lists, of which those that it names. Corners count
from 1 and lie inside, so that a box ends where its last pixel does.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from mxtrain.core import plain_text, regular_files
from mxtrain.core.errors import DataError
from mxtrain.data.boxes import box_labels
from mxtrain.data.sources.boxes.annotated import Annotated, Box, Size, number, source_of
from mxtrain.data.sources.item import IMAGE_SUFFIXES, BadItem, Source

ANNOTATIONS, PICTURES = "Annotations", "JPEGImages"
_DECLARATIONS = re.compile(rb"<!(DOCTYPE|ENTITY)", re.IGNORECASE)  # of which a bomb is made


def read_voc(path: Path) -> Source:
    """Read a folder, or a list in its ImageSets; DataError where it is none."""
    root = path if path.is_dir() else _root_of(path)
    for folder in (ANNOTATIONS, PICTURES):
        if not (root / folder).is_dir():
            raise DataError(
                f"{root}: has no folder {folder}, as Pascal VOC's layout has; give its root, or a list in it"
            )
    pictures = {Path(name).stem: name for name in sorted(os.listdir(root / PICTURES)) if _is_picture(name)}
    names = (
        listed(path)
        if path.is_file()
        else sorted(each[:-4] for each in os.listdir(root / ANNOTATIONS) if each.endswith(".xml"))
    )
    found = [_annotated(root, name, pictures) for name in names]
    files = [path] if path.is_file() else []
    return source_of(
        path, root, found, files=[*files, *(root / ANNOTATIONS / f"{name}.xml" for name in names)]
    )


def _root_of(path: Path) -> Path:
    parent = next((each for each in path.absolute().parents if (each / ANNOTATIONS).is_dir()), None)
    if parent is None:
        raise DataError(f"{path}: lies in no folder with {ANNOTATIONS}, as a list of Pascal VOC's does")
    return parent


def _is_picture(name: str) -> bool:
    return name.lower().endswith(IMAGE_SUFFIXES)


def listed(path: Path) -> list[str]:
    """Return the names in a list; one of a class has a second column, -1 for pictures without it."""
    try:
        lines = plain_text.split_lines(regular_files.read(str(path)).decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text: save it as UTF-8") from None
    names = [line.split()[0] for line in lines if line.strip()]
    odd = next((name for name in names if "/" in name or name.startswith(".")), None)
    if odd is not None:
        raise DataError(f"{path}: names {odd}, which is no name of an annotation")
    return names


def _annotated(root: Path, name: str, pictures: dict[str, str]) -> Annotated:
    """Return a picture with what its XML file says."""
    xml = f"{ANNOTATIONS}/{name}.xml"
    picture = pictures.get(name)
    if picture is None:
        return Annotated(f"{PICTURES}/{name}.jpg", problem=f"{xml}: there is no picture {name} in {PICTURES}")
    shown = f"{PICTURES}/{picture}"
    try:
        size, boxes = _parsed(regular_files.read(str(root / xml)))
    except OSError as error:
        return Annotated(shown, problem=f"{xml}: cannot be read: {error.strerror}")
    except BadItem as bad:
        return Annotated(shown, problem=f"{xml}: {bad}")
    return Annotated(shown, boxes, size)


def _parsed(content: bytes) -> tuple[Size | None, list[Box]]:
    if _DECLARATIONS.search(content):
        raise BadItem("declares entities or a document type, which no annotation needs; take them out")
    try:
        top = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise BadItem(f"is no XML: {error}") from None
    size, shape = top.find("size"), (0, 0)
    if size is not None:
        width, height = (int(number(_text(size, each), f"size/{each}")) for each in ("width", "height"))
        shape = (width, height)
    boxes = [_box(each) for each in top.iter("object")]
    return (shape if min(shape) > 0 else None), boxes


def _box(of: Any) -> Box:
    name, corners = _text(of, "name").strip(), of.find("bndbox")
    if not name:
        raise BadItem("has an object without a name")
    if corners is None:
        raise BadItem(f"has an object {name} without a bndbox")
    left, top, right, bottom = (
        number(_text(corners, each), f"{each} of {name}") for each in ("xmin", "ymin", "xmax", "ymax")
    )
    is_difficult = (of.findtext("difficult") or "0").strip() == "1"
    flag = box_labels.DIFFICULT if is_difficult else box_labels.NORMAL
    return Box(name, left - 1, top - 1, right, bottom, flag)


def _text(of: Any, name: str) -> str:
    found = of.findtext(name)
    if found is None:
        raise BadItem(f"has no {name} in {of.tag}")
    return str(found)
