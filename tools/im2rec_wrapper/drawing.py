"""Text and pictures on a white canvas, saved as PNG: all that a contact sheet and a bar chart need.

OpenCV's letters are ASCII; any other becomes a question mark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mxtrain.core.opencv import cv2
from mxtrain.data.records.record_writer import Replacement

Canvas = npt.NDArray[Any]  # uint8 (height, width, 3), BGR

_FONT = cv2.FONT_HERSHEY_SIMPLEX
_INK = (40, 40, 40)


def blank(height: int, width: int) -> Canvas:
    """Return a white canvas."""
    return np.full((height, width, 3), 255, np.uint8)


def write(canvas: Canvas, text: str, left: int, bottom: int, size: float, width: int | None = None) -> None:
    """Draw a text that begins at `left` and stands on `bottom`, cut to `width` pixels."""
    letters = text.encode("ascii", "replace").decode("ascii")
    if width is not None:
        letters = _cut(letters, size, width)
    cv2.putText(canvas, letters, (left, bottom), _FONT, size, _INK, 1, cv2.LINE_AA)


def save_png(canvas: Canvas, path: Path) -> None:
    """Write the canvas to a PNG, atomically."""
    _, png = cv2.imencode(".png", canvas)
    with Replacement(path) as file:
        file.write(png.tobytes())


def _cut(letters: str, size: float, width: int) -> str:
    kept = letters
    while kept and cv2.getTextSize(kept if kept == letters else kept + "..", _FONT, size, 1)[0][0] > width:
        kept = kept[:-1]
    return kept if kept == letters else kept + ".."
