"""Arithmetic of boxes in NumPy: overlaps, centres and corners, and which anchor is which box's.

Boxes are rows of x1, y1, x2, y2; anchors, as detectors have them, of centre x, centre y, width, height.
"""

from __future__ import annotations

import numpy as np

from mxtrain.data.fields import Array

CLASS, FLAG = 4, 5  # columns of a sample's boxes
CROWD = 2  # the flag of a box around many objects, which teaches nothing


def corners(centres: Array) -> Array:
    """Return x1, y1, x2, y2 of rows of centre and size."""
    half = centres[..., 2:] / 2
    return np.concatenate([centres[..., :2] - half, centres[..., :2] + half], axis=-1)


def centres(corners: Array) -> Array:
    """Return centre and size of rows of x1, y1, x2, y2."""
    low, high = corners[..., :2], corners[..., 2:4]
    return np.concatenate([(low + high) / 2, high - low], axis=-1)


def overlaps(boxes: Array, others: Array) -> Array:
    """Return the intersection over union of each box with each of the others: (boxes, others)."""
    (x1, y1, x2, y2), (other_x1, other_y1, other_x2, other_y2) = boxes[:, :4].T[..., None], others[:, :4].T
    wide = np.minimum(x2, other_x2) - np.maximum(x1, other_x1)
    high = np.minimum(y2, other_y2) - np.maximum(y1, other_y1)
    shared = np.maximum(wide, 0) * np.maximum(high, 0)
    union = (x2 - x1) * (y2 - y1) + (other_x2 - other_x1) * (other_y2 - other_y1) - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def matches(ious: Array, threshold: float) -> Array:
    """Return the box of each anchor, by their overlaps (anchors, boxes); -1 of an anchor that has none.

    Each box has the anchor that it overlaps most, the boxes of the largest overlaps choosing first; any other anchor
    has the box that it overlaps most, from `threshold` on, or if no anchor overlaps that box more.
    """
    if not ious.shape[1]:
        return np.full(len(ious), -1)
    best, largest = ious.argmax(axis=1), ious.max(axis=1)
    found = np.where((largest > 0) & (largest >= np.minimum(threshold, ious.max(axis=0)[best])), best, -1)
    left = ious.copy()
    choices = left.argmax(axis=0)
    for _ in range(left.shape[1]):
        largest = left[choices, np.arange(left.shape[1])]
        box = int(largest.argmax())
        if largest[box] <= 0:  # no anchor is near what is left
            break
        anchor = choices[box]
        found[anchor] = box
        left[anchor], left[:, box] = 0, 0
        again = choices == anchor
        choices[again] = left[:, again].argmax(axis=0)
    return found


def real(boxes: Array) -> Array:
    """Return the boxes of a picture without what fills up behind them."""
    return boxes[boxes[:, CLASS] >= 0]
