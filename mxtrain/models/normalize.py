"""Normalisation of pictures on a device, before the net, with the numbers that the host uses (`data/augment/crops.py`).

Pictures that come as float32 are what the net takes. Those that come as uint8 are a quarter of the bytes to copy.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from mxtrain.data.augment.normalization import OF_COLOURS, Normalisation
from mxtrain.runtime import mx
from mxtrain.runtime.types import Device, NDArray


def normalized(data: NDArray, normalisation: Normalisation = OF_COLOURS) -> NDArray:
    """Return pictures as the net takes them; no gradient goes through."""
    if data.dtype != np.uint8:
        return data
    factor, offset = _numbers(data.context, normalisation)
    with mx.autograd.pause():
        return mx.nd.broadcast_sub(mx.nd.broadcast_mul(data.astype("float32"), factor), offset)


@functools.lru_cache(maxsize=None)
def _numbers(context: Device, normalisation: Normalisation) -> tuple[NDArray, NDArray]:
    factor, offset = factor_and_offset(normalisation)
    return mx.nd.array(factor, ctx=context), mx.nd.array(offset, ctx=context)


def factor_and_offset(normalisation: Normalisation) -> tuple[Any, Any]:
    """Return by what pixels are multiplied, and what is taken off then, as float32 (1, channels, 1, 1)."""
    mean, std = map(np.array, normalisation)
    factor, offset = (
        numbers.reshape(1, -1, 1, 1).astype(np.float32) for numbers in (1 / (255 * std), mean / std)
    )
    return factor, offset
