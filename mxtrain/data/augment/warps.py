"""Affine operations on a picture: from uint8 RGB pixels to new ones of the same size, nothing random.

Pixels from outside the picture are gray, as in the published RandAugment.
"""

from __future__ import annotations

import numpy as np

from mxtrain.core.opencv import cv2
from mxtrain.data.decode.jpeg import Pixels

OUTSIDE = (128, 128, 128)


def rotate(image: Pixels, degrees: float) -> Pixels:
    """Rotate about the centre, counter-clockwise."""
    return _warp(image, _rotation(image, degrees))


def rotate_classes(mask: Pixels, degrees: float, outside: int) -> Pixels:
    """Rotate a mask as `rotate` does its picture; each pixel has the class of the nearest one, or `outside`."""
    return _warp(mask, _rotation(mask, degrees), cv2.INTER_NEAREST, (outside,))


def _rotation(image: Pixels, degrees: float) -> list[list[float]]:
    height, width = image.shape[:2]
    turn = np.asarray(cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), degrees, 1.0))
    found: list[list[float]] = cv2.invertAffineTransform(turn).tolist()
    return found


def shear_x(image: Pixels, slope: float) -> Pixels:
    """Shift each row by `slope` pixels further to the left than the one above it; the upper edge stays."""
    return _warp(image, [[1, slope, slope / 2], [0, 1, 0]])


def shear_y(image: Pixels, slope: float) -> Pixels:
    """Shift each column by `slope` pixels further up than the one to its left; the left edge stays."""
    return _warp(image, [[1, 0, 0], [slope, 1, slope / 2]])


def translate_x(image: Pixels, fraction: float) -> Pixels:
    """Shift to the left by this fraction of the width, in whole pixels."""
    return _warp(image, [[1, 0, round(fraction * image.shape[1])], [0, 1, 0]])


def translate_y(image: Pixels, fraction: float) -> Pixels:
    """Shift up by this fraction of the height, in whole pixels."""
    return _warp(image, [[1, 0, 0], [0, 1, round(fraction * image.shape[0])]])


def _warp(
    image: Pixels,
    source: list[list[float]],
    method: int = cv2.INTER_LINEAR,
    outside: tuple[int, ...] = OUTSIDE,
) -> Pixels:
    """Take each pixel (x, y) from `source @ (x, y, 1)`; OpenCV counts from the middle of the first pixel."""
    height, width = image.shape[:2]
    return cv2.warpAffine(
        image,
        np.array(source, np.float64),
        (width, height),
        flags=method | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_CONSTANT,
        borderValue=outside,
    )
