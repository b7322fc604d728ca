"""Masks from outlines and runs: polygons of corners, and COCO's run-length encodings, plain and compressed.

Owns which pixels are inside: those whose middles are, by the rule of odd and even crossings.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.data.sources.boxes.annotated import Size
from mxtrain.data.sources.item import BadItem


def inside_polygon(corners: Sequence[float], size: Size) -> Array:
    """Return which pixels of a picture of this width and height are inside x, y, x, y ...; BadItem for no outline."""
    points = np.asarray(corners, np.float64)
    if points.ndim != 1 or len(points) < 6 or len(points) % 2:
        raise BadItem(
            f"has an outline of {len(points)} numbers; it takes three corners or more, x and y of each"
        )
    if not np.isfinite(points).all():
        raise BadItem("has an outline with a number that is not finite")
    x, y = points[::2], points[1::2]
    next_x, next_y = np.roll(x, -1), np.roll(y, -1)
    width, height = size
    middles = np.arange(height) + 0.5
    # Where edges cross the middles of rows; each end belongs to one edge of two.
    crosses = (y <= middles[:, None]) != (next_y <= middles[:, None])
    with np.errstate(divide="ignore", invalid="ignore"):
        places = x + (middles[:, None] - y) * (next_x - x) / (next_y - y)
    # A pixel is inside if an odd number of crossings is to the left of its middle.
    first = np.clip(np.ceil(np.where(crosses, places, 0) - 0.5), 0, width).astype(np.int64)
    changes = np.zeros((height, width + 1), np.int64)
    rows, _ = np.nonzero(crosses)
    np.add.at(changes, (rows, first[crosses]), 1)
    inside: Array = np.cumsum(changes, axis=1)[:, :width] % 2 == 1
    return inside


def inside_runs(encoding: Any, size: Size) -> Array:
    """Return which pixels are inside an encoding of `size` (height, width) and `counts`, a list or text."""
    width, height = size
    if not isinstance(encoding, dict) or list(encoding.get("size") or ()) != [height, width]:
        shown = encoding.get("size") if isinstance(encoding, dict) else None
        raise BadItem(f"has runs of the size {shown}, and its picture is [{height}, {width}]")
    counts = encoding.get("counts")
    runs = _of_text(counts) if isinstance(counts, str) else counts
    if not isinstance(runs, list) or not all(isinstance(each, int) and each >= 0 for each in runs):
        raise BadItem("has runs that are no list of whole numbers, and no text of COCO's")
    if sum(runs) != width * height:
        raise BadItem(f"has runs of {sum(runs)} pixels, and its picture has {width * height}")
    flat = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    inside: Array = flat.reshape(width, height).T
    return inside


def _of_text(text: str) -> list[int]:
    """Return the runs of compressed text: five bits a letter, from the fourth run on changes since two before."""
    runs: list[int] = []
    value = shift = 0
    for letter in text.encode("latin-1", "replace"):
        bits = letter - 48
        if not 0 <= bits < 64:
            raise BadItem("has compressed runs with a letter that is none of COCO's")
        value |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            value -= 1 << shift
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
        value = shift = 0
    if shift:
        raise BadItem("has compressed runs that end in the middle of a number")
    return runs
