"""The use of a step's sums of gradients, whoever holds them, and the numbers for it that a step decides on."""

from __future__ import annotations

from typing import Iterable, NamedTuple

from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray


class Update(NamedTuple):
    """The way in which weights move: gradients are multiplied by `unscale`, clipped, then applied."""

    rate: float
    factor: float  # the optimizer's `rescale_grad`
    unscale: float = 1.0  # 1 / loss scale
    clip: float = 0.0  # of a gradient's numbers; 0: none


def unscale_and_clip(gradients: Iterable[NDArray], update: Update) -> None:
    """Change these gradients in place, as `update` says.

    These are operators of their own, because as parts of an optimizer's factor such numbers would be read as others:
    MXNet reads float32 from decimals, and takes some x / 1024 for a neighbouring number.
    """
    for gradient in gradients:
        if update.unscale != 1.0:
            gradient *= update.unscale
        if update.clip:
            mx.nd.clip(gradient, -update.clip, update.clip, out=gradient)
