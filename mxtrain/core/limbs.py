"""Numbers in limbs: parts that are multiples of units which everybody knows, few enough of them to be added exactly.

Owns cutting float64 numbers into limbs and carrying from one limb to the next. Does not own which units do
(`models/parameters/running_statistics.py`, `kvstore/limbs.py`) or how limbs are summed.
"""

from __future__ import annotations

from typing import Any, Iterator, Sequence

import numpy as np


def cut(values: Any, units: Sequence[Any]) -> Iterator[Any]:
    """Yield the limbs of float64 `values`, one for each of `units`, from the largest unit to the smallest.

    What is below half of the smallest unit is left out. What is not finite is in the first limb alone, for infinity
    less infinity would be no number; anything else is below 2**51 of the largest unit.
    """
    rest = np.where(np.isfinite(values), values, 0.0)
    without_limb = values - rest
    for unit in units:
        rounder = 1.5 * 2.0**52 * unit  # beside which float64 has no digits below a unit
        limb = (rest + rounder) - rounder
        rest = rest - limb
        yield limb + without_limb
        without_limb = 0.0


def carry(limbs: Any, units: Sequence[float]) -> None:
    """Make each sum of limbs but the first smaller than half of the unit above it, or as large with a minus.

    There is one such form of a number, whatever limbs were added. Sums have to be below 2**52 of their units.
    """
    for number in range(len(units) - 1, 0, -1):
        above = np.floor(limbs[number] / units[number - 1] + 0.5) * units[number - 1]
        limbs[number] -= above
        limbs[number - 1] += above
