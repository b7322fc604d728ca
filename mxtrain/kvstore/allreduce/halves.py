"""bfloat16 in NumPy, which has no such type: the upper halves of float32 numbers, as whole numbers of 16 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mxtrain.data.fields import Array

if TYPE_CHECKING:
    import numpy.typing as npt

    Halves = npt.NDArray[np.uint16]

HALF, NAN = 16, 0x7FC0


def rounded(numbers: Array) -> Halves:
    """Return float32 numbers rounded to bfloat16, a half to the even one; what is not finite stays so."""
    bits = numbers.view(np.uint32)
    halves = ((bits + (((bits >> HALF) & 1) + 0x7FFF)) >> HALF).astype(np.uint16)
    is_nan = np.isnan(numbers)
    if is_nan.any():  # its bits may overflow to any number's
        halves[is_nan] = NAN
    return halves


def widen(halves: Halves, numbers: Array) -> None:
    """Write the numbers that these halves are into float32 `numbers`."""
    np.left_shift(halves, HALF, out=numbers.view(np.uint32), dtype=np.uint32)
