"""Convolutions for which oneDNN 2.4.4's bfloat16 kernels compute wrong numbers, so that they have to stay float32.

tests/engine/test_narrow_kernels.py found them, and holds other shapes to the bit. Where a kernel is wrong nothing
fails: a run trains with such numbers. Those that are wrong in float32 too are mended before (`volumes.py`).
"""

from __future__ import annotations

import math
from typing import Any, Mapping

from mxtrain.core import kernels
from mxtrain.models.graph_rewrites import Shape, numbers

WIDTH, UNLUCKY_PIXELS = -1, 5


def is_wrong(attributes: Mapping[str, Any], data: Shape, output: Shape, onednn: str) -> bool:
    """Return whether a convolution between arrays of these shapes is wrong with these kernels of oneDNN's.

    `attributes` are those of the node in a graph, in MXNet's words.
    """
    kernel = numbers(attributes, "kernel")
    stride = numbers(attributes, "stride") or (1,) * len(kernel)
    # Weights that meet nothing but padding get as their gradient what was in its memory before.
    if kernel[WIDTH] > 1 and data[WIDTH] < stride[WIDTH]:
        return True
    # Where no instructions multiply bfloat16, others stand in for them, and take the registers of this case.
    is_emulated = not kernels.multiplies_bf16(onednn)
    return is_emulated and math.prod(kernel) == 1 and math.prod(output[2:]) == UNLUCKY_PIXELS
