"""The encoding of a source's raw pixels as PNG, which is lossless."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxtrain.core.opencv import cv2
from mxtrain.data.sources.item import BadItem


def as_png(pixels: Any) -> bytes:
    """Encode gray (height, width), RGB (height, width, 3), or planes (1 or 3, height, width); BadItem for others."""
    if pixels.ndim == 3 and pixels.shape[0] in (1, 3) and pixels.shape[2] not in (1, 3):
        pixels = pixels.transpose(1, 2, 0)
    if (
        pixels.dtype != np.uint8
        or pixels.ndim not in (2, 3)
        or (pixels.ndim == 3 and pixels.shape[2] not in (1, 3))
    ):
        raise BadItem(f"its pixels are {pixels.dtype} {pixels.shape}; 8 bits, gray or RGB, can be packed")
    if pixels.ndim == 3 and pixels.shape[2] == 3:
        pixels = pixels[:, :, ::-1]  # OpenCV wants blue first
    return bytes(cv2.imencode(".png", np.ascontiguousarray(pixels))[1])
