"""Enlarging maps by straight lines between their values, corners on corners, as products of matrices.

MXNet's BilinearResize2D computes the same; its backward pass runs on one thread, and takes 20 times as long.
"""

from __future__ import annotations

from typing import Any


def upsampled_like(F: Any, maps: Any, other: Any) -> Any:
    """Return maps (pictures, channels, height, width) in the height and width of `other`."""
    high = F.dot(F.transpose(maps, (0, 1, 3, 2)), _weights(F, maps, other, 2))
    return F.dot(F.transpose(high, (0, 1, 3, 2)), _weights(F, maps, other, 3))


def pixels_like(F: Any, maps: Any, other: Any) -> Any:
    """Return the same as (pictures, height, width, channels): the numbers of a pixel are side by side.

    A softmax over them takes a third of the time that it takes over channels, and nothing large is transposed for it.
    """
    wide = F.transpose(F.dot(maps, _weights(F, maps, other, 3)), (0, 2, 3, 1))
    rows = F.expand_dims(_weights(F, maps, other, 2), 0)
    rows = F.broadcast_like(rows, maps, lhs_axes=(0,), rhs_axes=(0,))
    high = F.batch_dot(rows, F.reshape(wide, (0, 0, -1)), transpose_a=True)
    return F.reshape_like(high, wide, lhs_begin=2, lhs_end=3, rhs_begin=2, rhs_end=4)


def _weights(F: Any, maps: Any, other: Any, axis: int) -> Any:
    """Return how much each place of `maps` along an axis is in each of `other`: (from, to)."""
    start, end = (F.BlockGrad(F.contrib.arange_like(each, axis=axis)) for each in (maps, other))
    # The last number of an array of 0, 1, 2 and so on is one less than its length.
    last, last_end = (F.max(each, axis=0, keepdims=True) for each in (start, end))
    step = F.broadcast_div(last, F.maximum(last_end, F.ones_like(last_end)))
    apart = F.broadcast_sub(F.expand_dims(start, 1), F.expand_dims(F.broadcast_mul(end, step), 0))
    return F.relu(1 - F.abs(apart))
