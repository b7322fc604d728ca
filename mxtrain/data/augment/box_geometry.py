"""Pictures with boxes: what moves both, nothing random.

Boxes are float32 (n, 6): x1, y1, x2, y2, class, flag, in pixels of their picture. Owns the rule which of them stay when
a part of the picture is cut off or covered: those of which VISIBLE is left, cut at the border, and crowds of which a
pixel is. What is outside a picture is gray. Cutting copies no pixel: a part is drawn when its pixels are asked for, and
where it is scaled before, only what there is of the picture is.
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
    """A part of a picture, and its boxes, in pixels of the part."""

    picture: Pixels  # uint8 (height, width, 3)
    boxes: Array
    part: Box | None = None  # of the picture, may reach beyond it; None for all of it

    @property
    def window(self) -> Box:
        """Which part it is."""
        return self.part or Box(0, 0, *self.picture.shape[:2])

    @property
    def size(self) -> Size:
        """The height and width of the part."""
        return Size(*self.window[2:])

    @property
    def pixels(self) -> Pixels:
        """The part, drawn."""
        whole = resized(self, self.size).picture if self.part else self.picture
        return np.ascontiguousarray(whole)


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
    side = of.size[1 - axis]
    boxes[:, axis], boxes[:, axis + 2] = side - of.boxes[:, axis + 2], side - of.boxes[:, axis]
    top, left, height, width = of.window
    behind = of.picture.shape[0] - top - height, of.picture.shape[1] - left - width
    top, left = (behind[0], left) if is_vertical else (top, behind[1])
    part = Box(top, left, height, width) if of.part else None
    picture = (
        cv2.flip(of.picture, 1 - axis) if of.picture.size else of.picture
    )  # of nothing OpenCV makes None
    return Boxed(picture, boxes, part)


def cut(of: Boxed, part: Box) -> Boxed:
    """Return a part of the picture, which may reach beyond it on all sides."""
    top, left = of.window.top + part.top, of.window.left + part.left
    (first, last), (left_most, right_most) = (
        (min(max(at, 0), length), min(max(at + side, 0), length))
        for at, side, length in zip((top, left), part[2:], of.picture.shape)
    )
    seen = of.picture[first:last, left_most:right_most]
    moved = Box(top - first, left - left_most, part.height, part.width)
    is_whole = seen.shape[:2] == part[2:]
    return Boxed(seen, visible(of.boxes, part), None if is_whole else moved)


def resized(of: Boxed, size: Size) -> Boxed:
    """Stretch to this size. What there is of the picture comes to lie on whole pixels, and boxes move as it does."""
    if not of.picture.size:
        return Boxed(blank(size), of.boxes)
    rows, columns = (_span(*each) for each in zip(of.window, of.picture.shape, of.size, size))
    high, wide = rows.stop - rows.start, columns.stop - columns.start
    y_factor, x_factor = high / of.picture.shape[0], wide / of.picture.shape[1]
    boxes = of.boxes + np.array([of.window.left, of.window.top] * 2 + [0, 0], np.float32)
    boxes *= np.array([x_factor, y_factor] * 2 + [1, 1], np.float32)
    boxes += np.array([columns.start, rows.start] * 2 + [0, 0], np.float32)
    small = resize(of.picture, high, wide)
    if small.shape[:2] == size:
        return Boxed(small, boxes)
    canvas = blank(size)
    canvas[rows, columns] = small
    return Boxed(canvas, boxes)


def _span(at: int, seen: int, side: int, length: int) -> slice:
    """Return where so many pixels lie, seen from `at` of them on, once a side is `length` long: one pixel at least."""
    start = min(round(-at * length / side), length - 1)
    return slice(start, max(round((seen - at) * length / side), start + 1))


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
