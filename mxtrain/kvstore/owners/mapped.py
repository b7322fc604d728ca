"""MXNet's arrays in files, of which only what is in use has to be in memory."""

from __future__ import annotations

import math
import mmap
import tempfile
from pathlib import Path

import numpy as np

from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray


def zeros(shape: tuple[int, ...], folder: Path | None = None) -> NDArray:
    """Return zeros, float32: in memory, or in a file of `folder` without a name, which goes with the array."""
    if folder is None:
        return mx.nd.zeros(shape)
    num_bytes = 4 * math.prod(shape)
    with tempfile.TemporaryFile(dir=folder) as file:
        file.truncate(num_bytes)
        content = mmap.mmap(file.fileno(), num_bytes)
    numbers = np.frombuffer(content, np.float32).reshape(shape)
    return mx.nd.from_numpy(numbers, zero_copy=True)
