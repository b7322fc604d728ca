"""Weights and pictures that follow from their names alone, so that torch and a test without torch have the same.

Imports nothing but NumPy. `RandomState` draws the same numbers in every version of NumPy.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt


def weight(key: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the array of a state_dict under this key, of a size that keeps a net's outputs in bounds."""
    if key.endswith("num_batches_tracked"):
        return np.zeros(shape, np.int64)
    numbers = np.random.RandomState(zlib.crc32(key.encode())).standard_normal(shape)
    if key.endswith("running_var"):
        numbers = 0.5 + np.abs(numbers)
    elif len(shape) > 1:
        numbers *= (2 / np.prod(shape[1:])) ** 0.5
    else:
        numbers = 0.1 * numbers + key.endswith("weight")
    return numbers.astype(np.float32)


def pictures(image_size: int, channels: int = 3) -> npt.NDArray[np.float32]:
    """Return two normalised pictures of noise."""
    shape = (2, channels, image_size, image_size)
    return np.random.RandomState(0).standard_normal(shape).astype(np.float32)
