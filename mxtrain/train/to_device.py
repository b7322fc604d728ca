"""The copy of a batch from the loader's memory to a device, where bytes become normalised numbers.

Pictures that come as float32 are what the net takes. Those that come as uint8, a quarter of the bytes to copy, are
normalised on the device, before the net, with the numbers that the host uses (`data/pixels.py`).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from mxtrain.config import Run
from mxtrain.data.augment import IMAGENET_MEAN, IMAGENET_STD
from mxtrain.runtime import mx


def dtype_of(run: Run) -> str:
    """Return the type of pictures in a batch: a GPU normalises bytes itself, for a CPU the loader is 8 times faster."""
    chosen = run.data.normalize
    if chosen == "auto":
        chosen = "device" if run.layout.devices.startswith("gpu") else "host"
    return "uint8" if chosen == "device" else "float32"


def to_context(array: Any, context: Any) -> Any:
    """Return a numpy array as an NDArray on `context`; on the first CPU it is no copy, unless it is normalised."""
    # from_numpy makes its argument read-only for good: a view takes that, the loader's buffer stays writable.
    placed = mx.nd.from_numpy(array[:], zero_copy=True).as_in_context(context)
    if array.dtype != np.uint8:
        return placed
    factor, offset = _numbers(context)
    return mx.nd.broadcast_sub(mx.nd.broadcast_mul(placed.astype("float32"), factor), offset)


@functools.lru_cache(maxsize=None)
def _numbers(context: Any) -> tuple[Any, Any]:
    mean, std = np.array(IMAGENET_MEAN), np.array(IMAGENET_STD)
    return tuple(
        mx.nd.array(numbers.reshape(1, 3, 1, 1), ctx=context, dtype="float32")
        for numbers in (1 / (255 * std), mean / std)
    )
