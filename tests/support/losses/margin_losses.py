"""The margin losses and their head in NumPy, in float64."""

from __future__ import annotations

import math

import numpy as np

from tests.support.losses.reference_losses import log_softmax

Array = np.ndarray


def scaled_cosines(features: Array, weights: Array, scale: float) -> Array:
    """Return (samples, classes) scaled cosines between features and the weights of classes."""
    units = features / np.linalg.norm(features, axis=1, keepdims=True)
    result: Array = scale * (units @ (weights / np.linalg.norm(weights, axis=1, keepdims=True)).T)
    return result


def margin_loss(name: str, cosines: Array, label: Array, scale: float, margin: float) -> Array:
    """Return the loss of each sample by scaled cosines, with angles by arccos as the papers write them."""
    rows = np.arange(len(label))
    own = cosines[rows, label] / scale
    if name == "cosface":
        moved = own - margin
    else:
        angle = np.arccos(np.clip(own, -1, 1))
        moved = np.where(
            angle + margin <= math.pi, np.cos(angle + margin), own - margin * math.sin(math.pi - margin)
        )
    with_margin = cosines.copy()
    with_margin[rows, label] = scale * moved
    result: Array = -log_softmax(with_margin)[rows, label]
    return result
