"""The sources of outlined objects: COCO's JSON with polygons and runs, and YOLO's texts of polygons.

Owns the mask that objects make together: class 0 is the background, smaller objects lie over larger ones, and crowds do
not count.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np

from mxtrain.core import plain_text, regular_files
from mxtrain.data.fields import Array
from mxtrain.data.masks.mask_format import IGNORED
from mxtrain.data.sources.boxes import coco, yolo
from mxtrain.data.sources.boxes.annotated import Size, number
from mxtrain.data.sources.item import BadItem, Source
from mxtrain.data.sources.masks import outlines
from mxtrain.data.sources.masks.masked import MaskedPicture, source_of

BACKGROUND = "background"


class Outlined(NamedTuple):
    """An object: its class, from 1 on, or IGNORED of a crowd, and the function to the pixels that it takes."""

    class_number: int
    inside: Callable[[Size], Array]


def read_coco_masks(path: Path, root: Path | None) -> Source:
    """Read a JSON file of COCO's; DataError where it is none."""
    content = coco.read_content(path)
    number_of = {key: place for place, key in enumerate(content.classes, 1)}
    objects: dict[Any, list[Outlined]] = {key: [] for key in content.files}
    problems: dict[Any, str] = {}
    for place, each in enumerate(content.annotations):
        try:
            objects[each["image_id"]].append(_of_coco(each, number_of))
        except BadItem as bad:
            shown = f"{path.name}: annotation {each.get('id', place)} {bad}"
            problems.setdefault(each["image_id"], shown)
    pictures = [
        MaskedPicture(str(name), functools.partial(_together, objects=objects[key]))
        if key not in problems
        else MaskedPicture(str(name), problem=problems[key])
        for key, name in content.files.items()
    ]
    root = root or coco.root_of(path, next(iter(content.files.values()), ""))
    return source_of(path, root, pictures, [BACKGROUND, *content.classes.values()], [path])


def read_yolo_masks(path: Path) -> Source:
    """Read a folder of pictures with texts of `class x y x y ...`, shares of a picture's sides."""
    folder = yolo.read_folder(path)
    pictures = []
    for name, text in folder.pictures:
        try:
            objects = [] if text is None else _of_text(text, folder.names)
            pictures.append(MaskedPicture(name, functools.partial(_together, objects=objects)))
        except BadItem as bad:
            pictures.append(MaskedPicture(name, problem=f"{text.name if text else name}: {bad}"))
    files = [folder.names_in, *(text for _, text in folder.pictures if text is not None)]
    return source_of(path, path, pictures, [BACKGROUND, *folder.names], files)


def _of_coco(annotation: dict[str, Any], number_of: dict[Any, int]) -> Outlined:
    category, outline = annotation.get("category_id"), annotation.get("segmentation")
    if category not in number_of:
        raise BadItem(f"has the category_id {category!r}, and there is no such category")
    which = IGNORED if annotation.get("iscrowd") == 1 else number_of[category]
    if isinstance(outline, dict):
        return Outlined(which, functools.partial(outlines.inside_runs, outline))
    if not isinstance(outline, list) or not outline:
        raise BadItem("has no segmentation, a list of polygons or runs")
    polygons = []
    for each in outline:
        if not isinstance(each, list):
            raise BadItem("has a polygon that is no list of numbers")
        polygons.append([number(place, "a corner") for place in each])
        outlines.inside_polygon(polygons[-1], (1, 1))  # refuses what is none
    return Outlined(which, functools.partial(_any_polygon, polygons))


def _any_polygon(polygons: Sequence[Sequence[float]], size: Size) -> Array:
    inside: Array = np.any([outlines.inside_polygon(each, size) for each in polygons], axis=0)
    return inside


def _of_text(path: Path, names: Sequence[str]) -> list[Outlined]:
    objects = []
    lines = plain_text.split_lines(regular_files.read(str(path)).decode("utf-8-sig", "replace"))
    for place, line in enumerate(lines, 1):
        if not line.strip():
            continue
        which, *corners = (number(part, f"line {place}: a number") for part in line.split())
        if which % 1 or not 0 <= which < len(names):
            raise BadItem(f"line {place}: has class {which:g}, and there are {len(names)}, numbered from 0")
        try:
            outlines.inside_polygon(corners, (1, 1))
        except BadItem as bad:
            raise BadItem(f"line {place}: {bad}") from None
        if not all(math.isfinite(each) and -1 <= each <= 2 for each in corners):
            raise BadItem(
                f"line {place}: in pixels, and has to be in shares of the picture's width and height"
            )
        objects.append(Outlined(int(which) + 1, functools.partial(_of_shares, corners)))
    return objects


def _of_shares(corners: Sequence[float], size: Size) -> Array:
    scaled = np.asarray(corners).reshape(-1, 2) * size
    return outlines.inside_polygon(scaled.ravel().tolist(), size)


def _together(size: Size, objects: Sequence[Outlined]) -> Array:
    """Return the mask of a picture of this width and height."""
    mask = np.zeros(size[::-1], np.uint8)
    pixels = [(each.class_number, each.inside(size)) for each in objects]
    # Crowds first, then from the largest object to the smallest; of equal ones the later lies above.
    for which, inside in sorted(pixels, key=lambda each: (each[0] != IGNORED, -int(each[1].sum()))):
        mask[inside] = which
    return mask
