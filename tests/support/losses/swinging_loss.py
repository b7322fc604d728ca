"""A loss whose gradient is thousands of times as large in steps with a rare sample as in the others.

A step's gradients are rounded for the size of those of the step before, so after every small step the sums of a large
one have more digits than float32: servers add them in three parts.
"""

from __future__ import annotations

from typing import Any

from mxtrain.models import losses

RARE_LABEL = 2
FACTOR = 2.0**14


def loss(output: Any, label: Any) -> Any:
    return losses.cross_entropy(output, label) * (1 + FACTOR * (label == RARE_LABEL))
