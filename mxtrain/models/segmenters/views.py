"""Classes of pixels by one look of a net at a picture or by several: mirrored, at scales, in windows.

Owns the views and their mean, of probabilities. A window has the size that the net was trained on.
"""

from __future__ import annotations

from typing import Any, Callable, Collection, Iterator

from mxtrain.config.values.sizes import Size
from mxtrain.models.segmenters.upsampling import upsampled_like
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray

FLIP, SCALES, WINDOWS = "flip", "scales", "windows"
FACTORS = (0.75, 1.0, 1.25)  # of --tta scales
STRIDE = 2 / 3  # of a window's side: from one to the next

Logits = Callable[[NDArray], NDArray]  # of pictures as the net sees them, in their size


def classes(logits: NDArray) -> NDArray:
    """Return the likeliest class of each pixel, (pictures, height, width)."""
    found: NDArray = logits.argmax(axis=1)
    return found


def classes_in_views(logits: Logits, data: NDArray, window: Size, views: Collection[str]) -> NDArray:
    """Return the class of each pixel that is likeliest in the mean of all views."""
    total: Any = 0
    for resized in _scaled(data, FACTORS if SCALES in views else (1.0,)):
        for is_mirrored in (False, True)[: 1 + (FLIP in views)]:
            seen = resized.flip(axis=3) if is_mirrored else resized
            shares = _in_windows(logits, seen, window) if WINDOWS in views else logits(seen).softmax(axis=1)
            shares = shares.flip(axis=3) if is_mirrored else shares
            total = total + upsampled_like(mx.nd, shares, data)
    return classes(total)


def starts(length: int, window: int) -> list[int]:
    """Return where windows begin along a side, so that all of it is in one and none reaches beyond it."""
    if length <= window:
        return [0]
    last, step = length - window, max(1, int(window * STRIDE))
    number = -(-last // step)
    return [last * each // number for each in range(number + 1)]


def _scaled(data: NDArray, factors: Collection[float]) -> Iterator[NDArray]:
    height, width = data.shape[2:]
    for factor in factors:
        if factor == 1:
            yield data
            continue
        like = mx.nd.zeros(
            (1, 1, max(1, round(height * factor)), max(1, round(width * factor))), ctx=data.context
        )
        yield upsampled_like(mx.nd, data, like)


def _in_windows(logits: Logits, data: NDArray, window: Size) -> NDArray:
    """Return the mean of the probabilities that windows give each pixel."""
    height, width = data.shape[2:]
    total: Any = None
    counts = mx.nd.zeros((1, 1, height, width), ctx=data.context)
    for top in starts(height, window.height):
        for left in starts(width, window.width):
            bottom, right = min(top + window.height, height), min(left + window.width, width)
            part = {"begin": (None, None, top, left), "end": (None, None, bottom, right)}
            shares = logits(data.slice(**part)).softmax(axis=1)
            if total is None:
                total = mx.nd.zeros((*shares.shape[:2], height, width), ctx=data.context)
            total[:, :, top:bottom, left:right] += shares
            counts[:, :, top:bottom, left:right] += 1
    mean: NDArray = mx.nd.broadcast_div(total, counts)
    return mean
