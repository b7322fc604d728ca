"""What can be done to the colours of a picture: uint8 RGB pixels in, new ones out, nothing random.

A factor of 1 leaves the picture as it is, 0 takes the property away. Definitions are those of PIL's ImageEnhance
and ImageOps, which the papers used; PIL cuts fractions off where this rounds, so results differ by 1 or 2 levels of
255 where nothing else is said. All work is done by OpenCV outside Python's lock, most of it as a table of 256 values.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from mxtrain.data.jpeg import Pixels

Table = npt.NDArray[Any]  # what each value becomes: (256,), or (256, 3) with a column for each channel

VALUES = np.arange(256)


def gray(image: Pixels) -> Pixels:
    """Brightness alone, by the weights of ITU-R 601, still as RGB."""
    return cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)


def brightness(image: Pixels, factor: float) -> Pixels:
    """Nearer to black, or further from it."""
    return _through(image, VALUES * factor)


def contrast(image: Pixels, factor: float) -> Pixels:
    """Nearer to the mean brightness, or further from it."""
    mean = round(cv2.mean(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))[0])
    return _through(image, mean + (VALUES - mean) * factor)


def saturation(image: Pixels, factor: float) -> Pixels:
    """Nearer to gray, or further from it."""
    return cv2.addWeighted(image, factor, gray(image), 1 - factor, 0)


def sharpness(image: Pixels, factor: float) -> Pixels:
    """Nearer to a smoothed picture, or further from it; the outermost pixels stay."""
    smooth = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]]) / 13
    only_itself = np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]])
    sharpened = image.copy()
    inside = cv2.filter2D(image, -1, factor * only_itself + (1 - factor) * smooth)
    sharpened[1:-1, 1:-1] = inside[1:-1, 1:-1]
    return sharpened


def hue(image: Pixels, turn: float) -> Pixels:
    """The colour circle turned by this share of it; 1/3 makes red green. By way of HSV in 8 bits, as torchvision."""
    angle, colourfulness, value = cv2.split(cv2.cvtColor(image, cv2.COLOR_RGB2HSV_FULL))
    turned = np.add(angle, round(turn * 256) % 256, dtype=np.uint8)  # 256 is once around, and 0 again
    return cv2.cvtColor(cv2.merge([turned, colourfulness, value]), cv2.COLOR_HSV2RGB_FULL)


def shift(image: Pixels, levels: npt.NDArray[np.float64]) -> Pixels:
    """Red, green and blue each moved by so many of 255 levels."""
    return _through(image, VALUES[:, None] + levels)


def solarize(image: Pixels, threshold: float) -> Pixels:
    """Values from the threshold on inverted; 256 leaves all. As PIL to the pixel."""
    return _through(image, np.where(threshold > VALUES, VALUES, 255 - VALUES))


def posterize(image: Pixels, bits: float) -> Pixels:
    """Only the highest bits of each value, a whole number of them. As PIL to the pixel."""
    return _through(image, VALUES & (256 - (1 << (8 - round(bits)))))


def autocontrast(image: Pixels) -> Pixels:
    """Each channel stretched so that its darkest value is 0 and its brightest 255."""
    darkest, brightest = np.empty(3), np.empty(3)
    for channel, histogram in enumerate(_histograms(image)):
        present = np.flatnonzero(histogram)
        darkest[channel], brightest[channel] = present[0], present[-1]
    ranges = brightest - darkest
    stretched = (VALUES[:, None] - darkest) * (255 / np.maximum(ranges, 1))
    return _through(image, np.where(ranges > 0, stretched, VALUES[:, None]))


def equalize(image: Pixels) -> Pixels:
    """Each channel's values spread so that all are about as frequent. As PIL to the pixel."""
    return _through(image, np.stack([_equalizing(histogram) for histogram in _histograms(image)], axis=-1))


def _equalizing(histogram: Table) -> Table:
    present = np.flatnonzero(histogram)
    step = (histogram.sum() - histogram[present[-1]]) // 255
    if not step:  # one value, or a picture too small to be spread
        return VALUES
    spread: Table = (np.cumsum(histogram) - histogram + step // 2) // step
    return spread


def _histograms(image: Pixels) -> list[Table]:
    """How often each value occurs, for each channel."""
    counts = [cv2.calcHist([image], [channel], None, [256], [0, 256]) for channel in range(3)]
    return [count[:, 0].astype(np.int64) for count in counts]


def _through(image: Pixels, table: Table) -> Pixels:
    """Each value replaced by what the table holds for it, rounded."""
    rounded = np.clip(np.rint(table), 0, 255).astype(np.uint8)
    return cv2.LUT(image, rounded if table.ndim == 1 else rounded[None])
