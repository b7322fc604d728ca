"""Pictures with boxes: what moves both, nothing random.

Boxes are float32 (n, 6): x1, y1, x2, y2, class, flag, in pixels of their picture. Owns the rule which of them stay when
a part of the picture is cut off or covered: those of which VISIBLE is left, cut at the border, and crowds of which a
pixel is. What is outside a picture is gray.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mxtrain.config.values.sizes import Size
from mxtrain.core.opencv import cv2
from mxtrain.data.boxes.box_labels import CROWD
from mxtrain.data.decode.jpeg import Box, Pixels
from mxtrain.data.decode.resizing import resize
from mxtrain.data.fields import Array

VISIBLE = 0.3  # of a box's area, that an object takes to be one
OUTSIDE = (124, 116, 104)  # ImageNet's mean: 0 once it is normalised


class Boxed(NamedTuple):
    """A picture, uint8 (height, width, 3), and its boxes."""

    pixels: Pixels
    boxes: Array

    @property
    def size(self) -> Size:
        """The height and width of the picture."""
        return Size(*self.pixels.shape[:2])


def areas(boxes: Array) -> Array:
    """Return the areas of boxes; 0 of one whose sides are swapped."""
    sides = np.maximum(boxes[:, 2:4] - boxes[:, :2], 0).astype(np.float64)
    product: Array = sides[:, 0] * sides[:, 1]
    return product


def visible(boxes: Array, within: Box) -> Array:
    """Return the boxes that stay where only this part of their picture does, in its pixels."""
    moved: Array = boxes - np.array([within.left, within.top, within.left, within.top, 0, 0], np.float32)
    moved[:, 0:4:2] = moved[:, 0:4:2].clip(0, within.width)
    moved[:, 1:4:2] = moved[:, 1:4:2].clip(0, within.height)
    left = areas(moved)
    stays = (left >= VISIBLE * areas(boxes)) & (left > 0) | (boxes[:, 5] == CROWD) & (left >= 1)
    kept: Array = moved[stays]
    return kept


def mirrored(of: Boxed, is_vertical: bool = False) -> Boxed:
    """Mirror left and right, or top and bottom."""
    boxes, axis = of.boxes.copy(), int(is_vertical)
    side = of.pixels.shape[1 - axis]
    boxes[:, axis], boxes[:, axis + 2] = side - of.boxes[:, axis + 2], side - of.boxes[:, axis]
    return Boxed(cv2.flip(of.pixels, 1 - axis), boxes)


def cut(of: Boxed, part: Box) -> Boxed:
    """Return a part of the picture, which may reach beyond it on all sides."""
    height, width = of.size
    top, left = max(part.top, 0), max(part.left, 0)
    bottom, right = min(part.top + part.height, height), min(part.left + part.width, width)
    canvas = blank(Size(part.height, part.width))
    if bottom > top and right > left:
        rows, columns = slice(top - part.top, bottom - part.top), slice(left - part.left, right - part.left)
        canvas[rows, columns] = of.pixels[top:bottom, left:right]
    return Boxed(canvas, visible(of.boxes, part))


def resized(of: Boxed, size: Size) -> Boxed:
    """Stretch to this size."""
    high, wide = size.height / of.size.height, size.width / of.size.width
    boxes = of.boxes * np.array([wide, high, wide, high, 1, 1], np.float32)
    return Boxed(resize(of.pixels, *size), boxes)


def letterbox_of(picture: Size, size: Size) -> Box:
    """Return where a picture lies, as large as fits and undistorted, in the middle of this size."""
    factor = min(size.height / picture.height, size.width / picture.width)
    high, wide = (max(1, round(side * factor)) for side in picture)
    return Box((size.height - high) // 2, (size.width - wide) // 2, high, wide)


def letterboxed(of: Boxed, size: Size) -> Boxed:
    """Scale to fit into this size undistorted, in its middle."""
    inside = letterbox_of(of.size, size)
    small = resized(of, Size(inside.height, inside.width))
    return cut(small, Box(-inside.top, -inside.left, *size))


def blank(size: Size) -> Pixels:
    """Return a gray picture."""
    return np.full((*size, 3), OUTSIDE, np.uint8)
