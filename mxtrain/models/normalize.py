"""Normalisation of pictures on a device, before the net, with the numbers that the host uses (`data/pixels.py`).

Pictures that come as float32 are what the net takes. Those that come as uint8 are a quarter of the bytes to copy.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from mxtrain.data.augment import IMAGENET_MEAN, IMAGENET_STD
from mxtrain.runtime import mx


def normalized(data: Any) -> Any:
    """Return pictures as the net takes them; no gradient goes through."""
    if data.dtype != np.uint8:
        return data
    factor, offset = _numbers(data.context)
    with mx.autograd.pause():
        return mx.nd.broadcast_sub(mx.nd.broadcast_mul(data.astype("float32"), factor), offset)


@functools.lru_cache(maxsize=None)
def _numbers(context: Any) -> tuple[Any, Any]:
    mean, std = np.array(IMAGENET_MEAN), np.array(IMAGENET_STD)
    return tuple(
        mx.nd.array(numbers.reshape(1, 3, 1, 1), ctx=context, dtype="float32")
        for numbers in (1 / (255 * std), mean / std)
    )
