"""Convolutions for which oneDNN 2.4.4's bfloat16 and int8 kernels are wrong, so that they have to stay float32.

tests/engine/models/autocast/test_autocast_kernels.py found them, and holds other shapes to the bit. Where a kernel is
wrong nothing fails at once: a run trains with such numbers, or with memory that was written over, until it ends with
"free(): invalid pointer". Those that are wrong in float32 too are mended before (`models/rewrites/repairs/volumes.py`).
"""

from __future__ import annotations

import math
from typing import Any, Mapping

from mxtrain.core.system import kernels
from mxtrain.models.rewrites.graph_rewrites import Shape, numbers

UNLUCKY_PIXELS = 5


def is_wrong(attributes: Mapping[str, Any], data: Shape, output: Shape, onednn: str) -> bool:
    """Return whether a convolution between arrays of these shapes is wrong with these kernels of oneDNN's.

    `attributes` are those of the node in a graph, in MXNet's words.
    """
    kernel = numbers(attributes, "kernel")
    stride = numbers(attributes, "stride") or (1,) * len(kernel)
    # Weights that meet nothing but padding get as their gradient what was in its memory before; in volumes, rows of
    # such weights also write behind it.
    if any(taps > 1 and size < step for taps, size, step in zip(kernel, data[2:], stride)):
        return True
    if onednn == kernels.AMX and overruns_memory(attributes, output):
        return True
    # Where no instructions multiply bfloat16, others stand in for them, and take the registers of this case.
    is_emulated = not kernels.multiplies_bf16(onednn)
    return is_emulated and math.prod(kernel) == 1 and math.prod(output[2:]) == UNLUCKY_PIXELS


def overruns_memory(attributes: Mapping[str, Any], output: Shape) -> bool:
    """Return whether the kernels for AMX's matrix units, in bfloat16 and in int8, write behind the end of an array.

    A 1x1 convolution is cut into tiles of up to 16 pixels: of exactly three, as for 6x6 pixels, the last is written
    where a fourth would be. The other kernels do so now and then where a stride passes over pixels.
    """
    kernel = numbers(attributes, "kernel")
    if math.prod(kernel) == 1:
        pixels = math.prod(output[2:])
        return pixels % 3 == 0 and 9 <= pixels // 3 <= 16
    return any(taps < step for taps, step in zip(kernel, numbers(attributes, "stride")))
