"""Small pictures to pack."""

from __future__ import annotations

import cv2
import numpy as np


def picture(seed, height=60, width=80):
    """Coarse and in colour, like nothing another seed gives."""
    small = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)


def jpeg(pixels, *options):
    return cv2.imencode(".jpg", pixels, options)[1].tobytes()
