"""Resizing of pixels, which is OpenCV's: the part in C, where it is built, makes the same bits in half the time."""

from __future__ import annotations

import numpy as np

from mxtrain import native
from mxtrain.core.opencv import cv2
from mxtrain.data.decode.jpeg import Box, Pixels, is_linear


def resize(image: Pixels, height: int, width: int) -> Pixels:
    """Return the picture in this size; itself where that is its size."""
    if image.shape[:2] == (height, width):
        return image
    box = Box(0, 0, *image.shape[:2])
    if not is_linear(box, height, width):
        return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    if native.resize and image.strides[1:] == (3, 1):
        pixels = native.resize(image, height, width)
        if pixels is not None:
            return np.frombuffer(pixels, np.uint8).reshape(height, width, 3)
    return cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR)
