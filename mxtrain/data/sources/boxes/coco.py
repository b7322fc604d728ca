"""The source of COCO's JSON: pictures, categories, and boxes as left, top, width and height in pixels.

    annotations/instances_train2017.json   train2017/*.jpg

Pictures lie where --root says; without it beside the JSON file, or in a folder beside its own that has the last part of
its name. Classes are numbered in the order of their ids; crowds are kept as such.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from mxtrain.core import regular_files
from mxtrain.core.errors import DataError
from mxtrain.data.boxes import box_labels
from mxtrain.data.sources.boxes.annotated import Annotated, Box, number, source_of
from mxtrain.data.sources.item import BadItem, Source
from mxtrain.data.sources.labels import check_class_name


class Content(NamedTuple):
    """The content of a JSON file: pictures and classes by their ids, and annotations of pictures that there are."""

    images: list[dict[str, Any]]
    files: dict[Any, Any]  # the names of pictures
    classes: dict[Any, str]  # in the order of their ids
    annotations: list[dict[str, Any]]


def read_coco(path: Path, root: Path | None) -> Source:
    """Read a JSON file; DataError where it is none of COCO's."""
    images, files, classes, annotations = read_content(path)
    boxes: dict[Any, list[Box]] = {key: [] for key in files}
    problems: dict[Any, str] = {}
    for place, each in enumerate(annotations):
        try:
            boxes[each["image_id"]].append(_box(each, classes))
        except BadItem as bad:
            shown = f"{path.name}: annotation {each.get('id', place)} {bad}"
            problems.setdefault(each["image_id"], shown)
    root = root or root_of(path, next(iter(files.values()), ""))
    pictures = [
        Annotated(
            str(files[each["id"]]), boxes[each["id"]], _size(each), problem=problems.get(each["id"], "")
        )
        for each in images
    ]
    return source_of(path, root, pictures, list(classes.values()), [path])


def read_content(path: Path) -> Content:
    """Read what boxes and masks have in common; DataError where it is none of COCO's."""
    content = _parsed(path)
    names = _by_id(path, "categories", content["categories"], "name")
    classes = {key: check_class_name(str(name), str(path)) for key, name in sorted(names.items())}
    if len(set(classes.values())) < len(classes):
        raise DataError(f"{path}: two of its categories have one name: give each a name of its own")
    files = _by_id(path, "images", content["images"], "file_name")
    for place, each in enumerate(content["annotations"]):
        key = each.get("image_id") if isinstance(each, dict) else None
        if key not in files:
            raise DataError(f"{path}: annotation {place} is of image_id {key!r}, and there is no such image")
    return Content(content["images"], files, classes, content["annotations"])


def _parsed(path: Path) -> Any:
    try:
        content = json.loads(regular_files.read(str(path)))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is no JSON: {error}") from None
    for name in ("images", "annotations", "categories"):
        if not isinstance(content, dict) or not isinstance(content.get(name), list):
            raise DataError(f"{path}: has no list of {name}, as COCO's files have")
    return content


def _by_id(path: Path, what: str, entries: list[Any], name: str) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for place, each in enumerate(entries):
        if not isinstance(each, dict) or not isinstance(each.get("id"), int) or not each.get(name):
            raise DataError(f"{path}: entry {place} of {what} has no id, or no {name}")
        if each["id"] in found:
            raise DataError(f"{path}: two of its {what} have the id {each['id']}")
        found[each["id"]] = each[name]
    return found


def _box(annotation: dict[str, Any], classes: dict[Any, str]) -> Box:
    category, corners = annotation.get("category_id"), annotation.get("bbox")
    if category not in classes:
        raise BadItem(f"has the category_id {category!r}, and there is no such category")
    if not isinstance(corners, list) or len(corners) != 4:
        raise BadItem("has no bbox of four numbers")
    left, top, width, height = (number(each, "bbox") for each in corners)
    if not (width > 0 and height > 0):
        raise BadItem(f"has a bbox of width {width:g} and height {height:g}")
    flag = box_labels.CROWD if annotation.get("iscrowd") == 1 else box_labels.NORMAL
    return Box(classes[category], left, top, left + width, top + height, flag)


def _size(image: dict[str, Any]) -> tuple[int, int] | None:
    width, height = image.get("width"), image.get("height")
    return (
        (width, height) if isinstance(width, int) and isinstance(height, int) and width > 0 < height else None
    )


def root_of(path: Path, first: str) -> Path:
    """Return the folder of the pictures: the first that has the first of them."""
    beside = path.absolute().parent
    last = path.stem.rpartition("_")[2]
    folders = [
        beside,
        beside / last,
        beside / "images",
        beside.parent / last,
        beside.parent / "images" / last,
    ]
    found = next((each for each in folders if (each / first).is_file()), None)
    if found is None:
        raise DataError(
            f"{path}: its first picture, {first}, is in none of {', '.join(map(str, folders))}; give --root"
        )
    return found
