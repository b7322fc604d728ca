"""The random changes of --augment to pictures with boxes, which move with what they are around.

Each is a function of a picture with its boxes, a generator and its numbers, draws from that generator alone, and does
not write to its argument. Those of several pictures get the others too. Does not own names and defaults
(`config/components/augmentations.py`), nor which boxes stay (`box_geometry.py`).
"""

from __future__ import annotations

import functools
from typing import Callable, Sequence

import numpy as np

from mxtrain.config.values.sizes import Size
from mxtrain.core.opencv import cv2
from mxtrain.data.augment import augmentations, box_geometry
from mxtrain.data.augment.box_geometry import VISIBLE, Boxed
from mxtrain.data.augment.crops import Rng
from mxtrain.data.boxes.box_labels import CROWD
from mxtrain.data.decode.jpeg import Box, Pixels
from mxtrain.data.fields import Array

OVERLAPS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)  # one of which a crop has with a box at least, as SSD has it
TRIALS = 50  # to find such a crop


def flip(of: Boxed, rng: Rng, p: float) -> Boxed:
    """Mirror left and right, with probability `p`."""
    return box_geometry.mirrored(of) if rng.random() < p else of


def vertical_flip(of: Boxed, rng: Rng, p: float) -> Boxed:
    """Mirror top and bottom, with probability `p`."""
    return box_geometry.mirrored(of, is_vertical=True) if rng.random() < p else of


def expand(of: Boxed, rng: Rng, p: float, ratio_max: float) -> Boxed:
    """Put the picture anywhere on a gray one of up to `ratio_max` times its sides, with probability `p`."""
    if rng.random() >= p:
        return of
    ratio = rng.uniform(1, ratio_max)
    high, wide = (round(side * ratio) for side in of.size)
    top, left = (int(rng.integers(0, large - side + 1)) for large, side in zip((high, wide), of.size))
    return box_geometry.cut(of, Box(-top, -left, high, wide))


def iou_crop(of: Boxed, rng: Rng, p: float, scale_min: float, scale_max: float, ratio_max: float) -> Boxed:
    """Cut out a part that overlaps a box by a random one of OVERLAPS or more, with probability `p`.

    Its sides are shares of the picture's, between the two scales, and it is distorted by `ratio_max` at most. A
    picture whose boxes would all be cut away stays as it is.
    """
    if rng.random() >= p:
        return of
    least = OVERLAPS[int(rng.integers(len(OVERLAPS)))]
    parts = _random_parts(of.size, rng, scale_min, scale_max, ratio_max)
    if not len(of.boxes):
        return box_geometry.cut(of, Box(*parts[0].tolist()))
    for part in parts[_overlaps(parts, of.boxes) >= least].tolist():
        result = box_geometry.cut(of, Box(*part))
        if len(result.boxes):
            return result
    return of


def scale_jitter(of: Boxed, rng: Rng, scale_min: float, scale_max: float) -> Boxed:
    """Scale by a random factor; the picture keeps its size, and has gray beside it or is cut at a random place."""
    factor = rng.uniform(scale_min, scale_max)
    high, wide = (max(1, round(side * factor)) for side in of.size)
    scaled = box_geometry.resized(of, Size(high, wide))
    top, left = (_place(large, side, rng) for large, side in zip((high, wide), of.size))
    return box_geometry.cut(scaled, Box(top, left, *of.size))


def mosaic(pictures: Sequence[Boxed], rng: Rng, size: Size) -> Boxed:
    """Put four pictures around a random point of one that is twice as high and wide as `size`.

    Each is as large as fits into `size`, with a corner at the point, and is cut at the border.
    """
    whole = Size(2 * size.height, 2 * size.width)
    y, x = (int(rng.integers(side // 2, side + side // 2 + 1)) for side in size)
    canvas, boxes = box_geometry.blank(whole), []
    for number, each in enumerate(pictures):
        inside = box_geometry.letterbox_of(each.size, size)
        small = box_geometry.resized(each, Size(inside.height, inside.width))
        top, left = y - inside.height * (number < 2), x - inside.width * (number % 2 == 0)
        put = box_geometry.cut(small, Box(-top, -left, *whole))
        (first, left_most), (high, wide) = put.window[:2], put.picture.shape[:2]
        canvas[-first : high - first, -left_most : wide - left_most] = put.picture
        boxes.append(put.boxes)
    return Boxed(canvas, np.concatenate(boxes))


def mixup(of: Boxed, other: Boxed, rng: Rng, alpha: float) -> Boxed:
    """Blend with another picture, made to fit; its share is drawn from Beta(alpha, alpha).

    Boxes of a picture whose share is below VISIBLE are left out.
    """
    share = float(rng.beta(alpha, alpha))
    fitted = box_geometry.letterboxed(other, of.size)
    blend: Pixels = np.asarray(cv2.addWeighted(of.pixels, 1 - share, fitted.pixels, share, 0))
    kept = [boxes for boxes, part in ((of.boxes, 1 - share), (fitted.boxes, share)) if part >= VISIBLE]
    return Boxed(blend, np.concatenate(kept))


def _of_colours(change: Callable[..., Pixels]) -> Callable[..., Boxed]:
    """Return the change of pixels as one of pictures with boxes, which stay where they are."""

    @functools.wraps(change)
    def changed(of: Boxed, rng: Rng, **numbers: float) -> Boxed:
        return Boxed(change(of.pixels, rng, **numbers), of.boxes)

    return changed


colour_jitter = _of_colours(augmentations.colour_jitter)
grayscale = _of_colours(augmentations.grayscale)
lighting = _of_colours(augmentations.lighting)


def _random_parts(size: Size, rng: Rng, scale_min: float, scale_max: float, ratio_max: float) -> Array:
    """Draw TRIALS parts of a picture: their scales, shapes and places; rows are those of a Box."""
    scale = rng.uniform(scale_min, scale_max, TRIALS)
    stretch = rng.uniform(np.maximum(1 / ratio_max, scale**2), np.minimum(ratio_max, scale**-2)) ** 0.5
    factors = np.stack([scale / stretch, scale * stretch], axis=1)
    sides = np.clip(np.rint(size * factors), 1, size).astype(np.int64)
    starts = rng.integers(0, np.array(size) - sides + 1)
    return np.concatenate([starts, sides], axis=1)


def _overlaps(parts: Array, boxes: Array) -> Array:
    """Return the largest intersection over union of each part of the picture with a box; crowds overlap nothing."""
    top, left, height, width = parts.T[:, :, None]
    x1, y1, x2, y2 = boxes[:, :4].T.astype(np.float64)
    wide = np.minimum(x2, left + width) - np.maximum(x1, left)
    high = np.minimum(y2, top + height) - np.maximum(y1, top)
    shared = np.maximum(wide, 0) * np.maximum(high, 0)
    union = np.maximum(box_geometry.areas(boxes) + height * width - shared, 1e-9)
    largest: Array = np.where(boxes[:, 5] == CROWD, 0, shared / union).max(axis=1)
    return largest


def _place(large: int, side: int, rng: Rng) -> int:
    """Draw where a window of a length begins in something larger, or before something smaller."""
    return int(rng.integers(min(0, large - side), max(0, large - side) + 1))
