"""The label of a record of boxes, as MXNet's ImageDetRecordIter and GluonCV's RecordFileDetection read it.

It is `A B [extra] (id x1 y1 x2 y2 [flag])*`: A numbers of header, these two among them, then B numbers a box, whose
places are shares of the picture's width and height. In memory boxes are rows of x1, y1, x2, y2, class, flag in pixels
of the picture that they go with.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxtrain.data.fields import Array

HEADER, WITH_FLAGS = 2, 6  # numbers of the header, and of a box, as we write them
NORMAL, DIFFICULT, CROWD = 0, 1, 2  # flags
MOST_SHARE = 10.0  # of a side that a corner is at; beyond it boxes are in pixels
COLUMNS = ("x1", "y1", "x2", "y2", "class", "flag")


def boxes_of(label: Any, width: float, height: float) -> Array:
    """Return the boxes of a record's label as float32 (n, 6), in pixels of a picture of this size.

    ValueError, with words for a message, for a label that is none.
    """
    numbers = np.asarray(label, np.float32).ravel()
    if len(numbers) < HEADER:
        raise ValueError(
            "its label is one number, not boxes; pack pictures with boxes, or give --task classification"
        )
    if not np.isfinite(numbers).all():
        raise ValueError("its label has a number that is not finite; pack it again")
    header, size = numbers[:HEADER].tolist()
    rest = len(numbers) - header
    if header < HEADER or header % 1 or size < 5 or size % 1 or rest < 0 or rest % size:
        raise ValueError(
            f"its label of {len(numbers)} numbers begins with {header:g} and {size:g}, which are no header of boxes "
            "(numbers of the header, 2 or more, and of each box, 5 or more); pack it again"
        )
    rows = numbers[int(header) :].reshape(-1, int(size))
    boxes = np.zeros((len(rows), 6), np.float32)
    boxes[:, :4] = rows[:, 1:5] * np.array([width, height, width, height], np.float32)
    boxes[:, 4] = rows[:, 0]
    if size >= WITH_FLAGS:
        boxes[:, 5] = rows[:, 5]
    return boxes


def label_of(boxes: Array, width: float, height: float) -> Array:
    """Return the label of boxes (n, 6) in pixels of a picture of this size."""
    shares = boxes[:, :4] / np.array([width, height, width, height])
    rows = np.concatenate([boxes[:, 4:5], shares, boxes[:, 5:6]], axis=1)
    label: Array = np.concatenate([[HEADER, WITH_FLAGS], rows.ravel()]).astype(np.float32)
    return label
