"""Boxes and answers drawn at random, for comparisons with GluonCV."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxtrain.runtime import mx

PICTURES, MOST, CLASSES, SIDE = 4, 12, 5, 256


def boxes(seed: int, least: int = 1) -> np.ndarray:
    """Return the boxes of some pictures, filled up with -1, as a loader gives them."""
    rng = np.random.default_rng(seed)
    every = np.full((PICTURES, MOST, 6), -1, np.float32)
    for of_picture in every:
        count = int(rng.integers(least, MOST))
        low = rng.uniform(0, SIDE - 60, (count, 2))
        high = np.minimum(low + rng.uniform(8, 150, (count, 2)), SIDE)
        of_picture[:count] = np.hstack(
            [low, high, rng.integers(0, CLASSES, (count, 1)), np.zeros((count, 1))]
        )
    return every


def answer(seed: int, *shape: int) -> Any:
    return mx.nd.array(np.random.default_rng(seed).normal(0, 2, (PICTURES, *shape)))
