"""The margins of `--loss arcface` and `--loss cosface`, in NumPy, and where their formulas stop being steep.

Owns a margin and its slope. The same on MXNet's arrays is in `losses.py`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mxtrain.config.components import losses
from mxtrain.data.fields import Array

SMALLEST_SINE = 1e-3  # float32 knows cosines near 1 to 6e-8, and their sines to 3e-4
SMALLEST_SQUARE = 1e-12  # added to squared lengths: what is all zero has the cosine 0 with anything
ARCFACE, COSFACE = "arcface", "cosface"


class Margin(NamedTuple):
    """The way from the cosine of a sample's own class to the logit that it trains by."""

    name: str
    scale: float
    margin: float

    def logits(self, cosines: Array) -> tuple[Array, Array]:
        """Return the logits of such cosines, float64, and by how much they change with a logit without the margin."""
        if self.name == COSFACE:
            return self.scale * (cosines - self.margin), np.ones_like(cosines)
        squares = (1 - cosines) * (1 + cosines)
        sines = np.sqrt(np.maximum(squares, SMALLEST_SINE**2))
        cosine, sine = math.cos(self.margin), math.sin(self.margin)
        turned = cosine * cosines - sine * sines
        slopes = cosine + np.where(squares > SMALLEST_SINE**2, sine * cosines / sines, 0.0)
        is_turned = cosines > -cosine
        moved = np.where(is_turned, turned, cosines - self.margin * sine)
        return self.scale * moved, np.where(is_turned, slopes, 1.0)

    def without(self) -> Margin:
        """Return the way of evaluations, to plain scaled cosines."""
        return Margin(COSFACE, self.scale, 0.0)


def of_loss(text: str) -> Margin | None:
    """Return the margin of `--loss`; None of a loss that has none."""
    name, hyperparameters = losses.parse(text)
    return Margin(name, **hyperparameters) if name in losses.of_target(losses.COSINES) else None
