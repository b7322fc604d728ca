"""Boxes drawn on a picture, each class in a colour of its own, with words at their corners."""

from __future__ import annotations

import colorsys
from typing import Sequence, Tuple

import numpy as np

from mxtrain.core.opencv import cv2
from mxtrain.data.decode.jpeg import Pixels
from mxtrain.data.fields import Array

Colour = Tuple[int, int, int]

TURN = 0.618034  # of the circle of colours from a class to the next, so that neighbours differ
FONT = cv2.FONT_HERSHEY_SIMPLEX
USUAL_SIDE = 600  # pixels of a picture on which a line is two pixels wide


def colour_of(number: int) -> Colour:
    """Return the colour of a class."""
    red, green, blue = colorsys.hsv_to_rgb(number * TURN % 1, 0.85, 1.0)
    return round(red * 255), round(green * 255), round(blue * 255)


def drawn(pixels: Pixels, boxes: Array, numbers: Sequence[int], words: Sequence[str]) -> Pixels:
    """Return the RGB picture with boxes (n, 4) of the classes `numbers`, and words at each; the first lie on top."""
    canvas = np.ascontiguousarray(pixels).copy()
    width = max(1, round(2 * max(canvas.shape[:2]) / USUAL_SIDE))
    for box, number, text in reversed(list(zip(boxes, numbers, words))):
        if not np.isfinite(box).all():
            continue
        x1, y1, x2, y2 = (round(float(each)) for each in box)
        cv2.rectangle(canvas, (x1, y1), (max(x1, x2 - 1), max(y1, y2 - 1)), colour_of(number), width)
        if text:
            _write(canvas, text, (x1, y1), colour_of(number), width)
    return canvas


def _write(canvas: Pixels, text: str, corner: tuple[int, int], colour: Colour, width: int) -> None:
    """Write on a plate above the corner, or inside it where there is no room above."""
    scale = 0.25 * (1 + width)
    plain = text.encode("ascii", "replace").decode()  # the font has no others
    (wide, high), below = cv2.getTextSize(plain, FONT, scale, 1)
    x, y = corner[0], corner[1] if corner[1] >= high + below else corner[1] + high + below
    cv2.rectangle(canvas, (x, y - high - below), (x + wide, y), colour, -1)
    cv2.putText(canvas, plain, (x, y - below // 2 - 1), FONT, scale, (0, 0, 0), 1, cv2.LINE_AA)
