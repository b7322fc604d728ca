"""Operations on the colours of a picture: from uint8 RGB pixels to new ones, nothing random.

A factor of 1 changes nothing, 0 removes the property. Definitions are those of PIL's ImageEnhance and ImageOps, which
the papers used; PIL truncates where this rounds, so results differ by 1 or 2 levels of 255 unless a function says
otherwise. OpenCV does the work without Python's lock, most of it by a table of 256 values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mxtrain.core.opencv import cv2
from mxtrain.data.decode.jpeg import Pixels

Table = npt.NDArray[Any]  # the new value for each value: (256,), or (256, 3) with a column for each channel

VALUES = np.arange(256)


def gray(image: Pixels) -> Pixels:
    """Return the luma (ITU-R 601), as RGB."""
    return cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)


def brightness(image: Pixels, factor: float) -> Pixels:
    """Blend with black."""
    return _through(image, VALUES * factor)


def contrast(image: Pixels, factor: float) -> Pixels:
    """Blend with the mean brightness."""
    mean = round(cv2.mean(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))[0])
    return _through(image, mean + (VALUES - mean) * factor)


def saturation(image: Pixels, factor: float) -> Pixels:
    """Blend with the gray picture."""
    return cv2.addWeighted(image, factor, gray(image), 1 - factor, 0)


def sharpness(image: Pixels, factor: float) -> Pixels:
    """Blend with the smoothed picture; the outermost pixels stay."""
    smooth = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]]) / 13
    only_itself = np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]])
    sharpened = image.copy()
    inside = cv2.filter2D(image, -1, factor * only_itself + (1 - factor) * smooth)
    sharpened[1:-1, 1:-1] = inside[1:-1, 1:-1]
    return sharpened


def hue(image: Pixels, turn: float) -> Pixels:
    """Turn the colour circle by this fraction of it; 1/3 makes red green. Through 8-bit HSV, as torchvision."""
    angle, colourfulness, value = cv2.split(cv2.cvtColor(image, cv2.COLOR_RGB2HSV_FULL))
    turned = np.add(angle, round(turn * 256) % 256, dtype=np.uint8)  # 256 is once around, and 0 again
    return cv2.cvtColor(cv2.merge([turned, colourfulness, value]), cv2.COLOR_HSV2RGB_FULL)


def shift(image: Pixels, levels: npt.NDArray[np.float64]) -> Pixels:
    """Add `levels`, of 255, to red, green and blue."""
    return _through(image, VALUES[:, None] + levels)


def solarize(image: Pixels, threshold: float) -> Pixels:
    """Invert values from the threshold on; 256 leaves all. Equal to PIL to the pixel."""
    return _through(image, np.where(threshold > VALUES, VALUES, 255 - VALUES))


def posterize(image: Pixels, bits: float) -> Pixels:
    """Keep the highest `bits` of each value, rounded to a whole number. Equal to PIL to the pixel."""
    return _through(image, VALUES & (256 - (1 << (8 - round(bits)))))


def autocontrast(image: Pixels) -> Pixels:
    """Stretch each channel so that its darkest value is 0 and its brightest 255."""
    darkest, brightest = np.empty(3), np.empty(3)
    for channel, histogram in enumerate(_histograms(image)):
        present = np.flatnonzero(histogram)
        darkest[channel], brightest[channel] = present[0], present[-1]
    ranges = brightest - darkest
    stretched = (VALUES[:, None] - darkest) * (255 / np.maximum(ranges, 1))
    return _through(image, np.where(ranges > 0, stretched, VALUES[:, None]))


def equalize(image: Pixels) -> Pixels:
    """Equalize the histogram of each channel. Equal to PIL to the pixel."""
    return _through(image, np.stack([_equalizing(histogram) for histogram in _histograms(image)], axis=-1))


def _equalizing(histogram: Table) -> Table:
    present = np.flatnonzero(histogram)
    step = (histogram.sum() - histogram[present[-1]]) // 255
    if not step:  # one value, or a picture too small to be spread
        return VALUES
    spread: Table = (np.cumsum(histogram) - histogram + step // 2) // step
    return spread


def _histograms(image: Pixels) -> list[Table]:
    """Return how often each value occurs, for each channel."""
    counts = [cv2.calcHist([image], [channel], None, [256], [0, 256]) for channel in range(3)]
    return [count.reshape(-1).astype(np.int64) for count in counts]  # (256, 1), from OpenCV 5 on (256,)


def _through(image: Pixels, table: Table) -> Pixels:
    """Replace each value by its entry in the table, rounded."""
    rounded = np.clip(np.rint(table), 0, 255).astype(np.uint8)
    return cv2.LUT(image, rounded if table.ndim == 1 else rounded[None])
