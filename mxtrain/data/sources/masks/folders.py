"""Folders of pictures and of their masks, by the layouts of the usual data sets.

    images/**/*.jpg               masks/**/*.png                           classes.txt or labelmap.txt
    JPEGImages/*.jpg              SegmentationClass/*.png                  Pascal VOC; ImageSets/Segmentation/train.txt
    images/training/*.jpg         annotations/training/*.png               ADE20K, whose classes count from 1
    leftImg8bit/train/*/*.png     gtFine/train/*/*_labelTrainIds.png       Cityscapes

It is the folder of both, or a list of Pascal VOC's. A mask has the path of its picture, with another end.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import NamedTuple, Sequence

from mxtrain.core import plain_text, regular_files
from mxtrain.core.errors import DataError
from mxtrain.data import input_files
from mxtrain.data.fields import Array
from mxtrain.data.sources.boxes.annotated import Size
from mxtrain.data.sources.boxes.voc import listed
from mxtrain.data.sources.item import IMAGE_SUFFIXES, Source
from mxtrain.data.sources.masks import mask_files
from mxtrain.data.sources.masks.mask_files import Classes
from mxtrain.data.sources.masks.masked import MaskedPicture, source_of

VOC_NAMES = (
    *("background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *(
        "diningtable",
        "dog",
        "horse",
        "motorbike",
        "person",
        "pottedplant",
        "sheep",
        "sofa",
        "train",
        "tvmonitor",
    ),
)
CITYSCAPES_NAMES = (
    *("road", "sidewalk", "building", "wall", "fence", "pole", "traffic light", "traffic sign", "vegetation"),
    *("terrain", "sky", "person", "rider", "car", "truck", "bus", "train", "motorcycle", "bicycle"),
)
ADE_NAMES = "objectInfo150.txt"


class Layout(NamedTuple):
    """The folders of a data set, and how the name of a mask is made of its picture's."""

    pictures: str
    masks: str
    end: str = ".png"  # of a mask, in the place of `picture_end`
    picture_end: str = ""  # empty: the suffix
    names: Sequence[str] = ()  # where no file has any
    shift: int = 0  # what is added to the numbers of a mask


LAYOUTS = (
    Layout("JPEGImages", "SegmentationClass", names=VOC_NAMES),
    Layout("leftImg8bit", "gtFine", "_gtFine_labelTrainIds.png", "_leftImg8bit.png", CITYSCAPES_NAMES),
    Layout("images", "masks"),
    Layout("images", "annotations", shift=-1),
)


def read_masks(path: Path) -> Source:
    """Read a folder, or a list of Pascal VOC's; DataError where it has none of the layouts."""
    root = path if path.is_dir() else _root_of(path)
    layout = next((each for each in LAYOUTS if _has(root, each)), None)
    if layout is None:
        known = ", ".join(f"{each.pictures} and {each.masks}" for each in LAYOUTS)
        raise DataError(f"{path}: has no two folders of pictures and masks ({known})")
    classes = _classes(root, layout)
    wanted = None if path.is_dir() else set(listed(path))
    pictures = [
        _masked(root, name, layout, classes)
        for name in _pictures(root, layout)
        if wanted is None or Path(name).stem in wanted
    ]
    if wanted is not None and len(pictures) < len(wanted):
        there = {Path(each.name).stem for each in pictures}
        raise DataError(f"{path}: lists {min(wanted - there)}, and {layout.pictures} has no such picture")
    files = [*classes.files, *([] if path.is_dir() else [path])]
    return source_of(path, root, pictures, classes.names, files)


def _has(root: Path, layout: Layout) -> bool:
    return (root / layout.pictures).is_dir() and (root / layout.masks).is_dir()


def _root_of(path: Path) -> Path:
    parent = next((each for each in path.absolute().parents if _has(each, LAYOUTS[0])), None)
    if parent is None:
        raise DataError(
            f"{path}: lies in no folder with JPEGImages and SegmentationClass, as a list of Pascal VOC's does"
        )
    return parent


def _classes(root: Path, layout: Layout) -> Classes:
    own = mask_files.classes_of(root, root / layout.masks)
    if own is not None:
        return own
    table = root / ADE_NAMES
    if layout.shift and table.is_file():
        rows = plain_text.split_lines(regular_files.read(str(table)).decode("utf-8-sig"))[1:]
        return Classes(
            [row.split("\t")[-1].split(",")[0].strip() for row in rows if row.strip()], {}, (table,)
        )
    if not layout.names:
        mask_files.refuse_without_names(root)
    return Classes(list(layout.names))


def _pictures(root: Path, layout: Layout) -> list[str]:
    folder = root / layout.pictures
    ends = (layout.picture_end.lower(),) if layout.picture_end else IMAGE_SUFFIXES
    return [os.path.relpath(each, root) for each in input_files.Folder(folder, ends).all_files()]


def _masked(root: Path, name: str, layout: Layout, classes: Classes) -> MaskedPicture:
    inside = os.path.relpath(name, layout.pictures)
    stem = inside[: -len(layout.picture_end)] if layout.picture_end else os.path.splitext(inside)[0]
    path = root / layout.masks / f"{stem}{layout.end}"
    if not path.is_file():
        lossy = next(
            (path.with_suffix(end) for end in (".jpg", ".jpeg") if path.with_suffix(end).is_file()), None
        )
        if lossy is None:
            return MaskedPicture(name, problem=f"has no mask: {path} is not there")
        path = lossy
    read = functools.partial(read_file, path=path, classes=classes, shift=layout.shift)
    return MaskedPicture(name, read, mask_path=str(path))


def read_file(size: Size, path: Path, classes: Classes, shift: int = 0) -> Array:
    """Return the mask in a file, whatever the size of its picture."""
    return mask_files.read(path, classes.colours, shift)
