"""What can be done to the shape of a picture: uint8 RGB pixels in, new ones of the same size out, nothing random.

What comes from outside the picture is gray, as in the published RandAugment.
"""

from __future__ import annotations

import cv2
import numpy as np

from mxtrain.data.jpeg import Pixels

OUTSIDE = (128, 128, 128)


def rotate(image: Pixels, degrees: float) -> Pixels:
    """About the centre, counter-clockwise."""
    height, width = image.shape[:2]
    turn = np.asarray(cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), degrees, 1.0))
    return _warp(image, cv2.invertAffineTransform(turn).tolist())


def shear_x(image: Pixels, slope: float) -> Pixels:
    """Each row further to the left than the one above it, by so much of a pixel; the upper edge stays."""
    return _warp(image, [[1, slope, slope / 2], [0, 1, 0]])


def shear_y(image: Pixels, slope: float) -> Pixels:
    """Each column further up than the one to its left, by so much of a pixel; the left edge stays."""
    return _warp(image, [[1, 0, 0], [slope, 1, slope / 2]])


def translate_x(image: Pixels, share: float) -> Pixels:
    """To the left by this share of the width, in whole pixels."""
    return _warp(image, [[1, 0, round(share * image.shape[1])], [0, 1, 0]])


def translate_y(image: Pixels, share: float) -> Pixels:
    """Up by this share of the height, in whole pixels."""
    return _warp(image, [[1, 0, 0], [0, 1, round(share * image.shape[0])]])


def _warp(image: Pixels, source: list[list[float]]) -> Pixels:
    """The pixel at (x, y) comes from `source @ (x, y, 1)`; OpenCV counts from the middle of the first pixel."""
    height, width = image.shape[:2]
    return cv2.warpAffine(
        image,
        np.array(source, np.float64),
        (width, height),
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_CONSTANT,
        borderValue=OUTSIDE,
    )
