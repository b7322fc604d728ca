"""A loss whose scaled gradient leaves float32 for some samples, until the scale has fallen far enough."""

from __future__ import annotations

from typing import Any

from mxtrain.models import losses

RARE_LABEL = 7
LARGEST_SCALE = 2**8  # that gives them a finite gradient
FACTOR = 1e36


def loss(output: Any, label: Any) -> Any:
    """Cross-entropy; the backward pass multiplies before it divides again."""
    factor = 1 + FACTOR * (label == RARE_LABEL)
    return losses.cross_entropy(output, label) / factor * factor
