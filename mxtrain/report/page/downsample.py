"""Fewer points of a long curve: the mean, the smallest and the largest of each piece, so that no extreme is lost.

Owns the pieces. They are a power of two of records long, so that those of a run that goes on stay what they are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

MOST_POINTS = 800  # about as many as a plot has pixels


class Thinned(NamedTuple):
    """Points of a curve; `low` and `high` are the extremes behind each, and equal `mean` where nothing was left out."""

    x: Any
    mean: Any
    low: Any
    high: Any
    piece: int  # how many records are behind a point


def thinned(x: Any, y: Any, most: int = MOST_POINTS) -> Thinned:
    """Return at most `most` points of the curve; those of `y` that are not finite are left out."""
    is_number = np.isfinite(y) & np.isfinite(x)
    x, y = np.asarray(x, np.float64)[is_number], np.asarray(y, np.float64)[is_number]
    piece = piece_length(len(y), most)
    if piece == 1:
        return Thinned(x, y, y, y, 1)
    starts = np.arange(0, len(y), piece)
    sizes = np.diff([*starts, len(y)])
    low, high = np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)
    means = np.clip(np.add.reduceat(y / piece, starts) * (piece / sizes), low, high)
    return Thinned(x[starts + sizes // 2], means, low, high, piece)


def piece_length(number: int, most: int) -> int:
    """Return the smallest power of two so that `number` records make at most `most` pieces."""
    each = 1
    while number > each * most:
        each *= 2
    return each


def evenly(items: list[Any], most: int) -> list[Any]:
    """Return at most `most` of the items, evenly over the list, with the first and the last."""
    if len(items) <= most:
        return items
    return [items[i] for i in np.linspace(0, len(items) - 1, most).round().astype(int)]
