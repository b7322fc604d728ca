"""Masks as others read them: rows of COCO's results, and files of classes, in the sizes of the pictures.

Owns what becomes of the `mask` in an answer, the class of each pixel that the net has seen of a picture.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np

from mxtrain.core import durable
from mxtrain.data.augment.mask_transforms import nearest
from mxtrain.data.decode.jpeg import Pixels
from mxtrain.data.fields import Array
from mxtrain.data.masks import mask_drawing
from mxtrain.inference.picture_files import FileNames, image_id, made


def coco_rows(name: str, shown: Mapping[str, Any], class_names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the classes in a picture as COCO's results, each with its pixels in runs.

    A category is the class's number, counted from 1. Runs are COCO's plain ones, column by column, in the mask's size.
    """
    mask: Array = shown["mask"]
    return [
        {
            "image_id": image_id(name),
            "category_id": int(number) + 1,
            "category": class_names[number],
            "segmentation": {"size": list(mask.shape), "counts": runs(mask == number)},
        }
        for number in np.unique(mask).tolist()
    ]


def runs(is_inside: Array) -> list[int]:
    """Return how many pixels are outside, then inside, and so on by turns, column by column."""
    flat = is_inside.T.ravel()
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    ends = np.concatenate([[0], changes, [len(flat)]])
    counts: list[int] = np.diff(ends).tolist()
    return [0, *counts] if len(flat) and flat[0] else counts


def mask_of(pixels: Pixels, shown: Mapping[str, Any]) -> Array:
    """Return the mask in an answer in the size of its picture."""
    return nearest(shown["mask"], *pixels.shape[:2])


def drawn(pixels: Pixels, shown: Mapping[str, Any], class_names: Sequence[str]) -> Pixels:
    """Return a picture with the colours of the classes that the net has seen over it."""
    return mask_drawing.drawn(pixels, mask_of(pixels, shown), len(class_names))


class MaskFiles:
    """A folder of masks as PNGs, each as large as its picture and called as its file."""

    def __init__(self, folder: Path, class_names: Sequence[str]):
        self._folder, self._num_classes = made(folder), len(class_names)
        self._names = FileNames()

    def write(self, name: str, pixels: Pixels, shown: Mapping[str, Any]) -> None:
        """Write the mask of a picture."""
        encoded = mask_drawing.encoded(mask_of(pixels, shown), self._num_classes)
        with durable.whole_file(self._folder / self._names.free(name, ".png")) as file:
            file.write(encoded)
