"""Units of the blocks of gradients: those of a first step, and those that follow from a step's sums (docs/adr/0020).

Owns the rules, of which a run keeps the one that it began with, so that it ends with the bits it would have had. The
arithmetic with units is `grid.py`'s. Knows arrays of NumPy only.

Rule 2 gives each block a unit of its own. Rule 1, of versions before, has none finer than that of the net's largest
block by more than 2**DEPTH, and so takes gradients for zero that are smaller than that one's by 2**39 and more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

RULE = 2  # of new runs
TARGET = 18  # the largest sum of a block is nearly 2**TARGET units, and its rounding 2**-TARGET of it
DEPTH = 20  # a block of zeros has a unit finer than that of its last numbers by no more than 2**DEPTH
# Units shrink by 2**FALL a step: a block whose sum fell often grows again, and then has more digits than float32. One
# that is left more than 2**SLACK too coarse, as by a single giant, follows at once, but for no more than 2**LEAP.
FALL, SLACK, LEAP = 2, 4, 8
LOWEST = -126  # of float32's normal numbers
UNSEEN = np.iinfo(np.int32).min  # the level of a block that has had nothing but zeros


class Units(NamedTuple):
    """The `exponents` of all blocks, int32, and `levels`: what the last numbers of each wanted; None with rule 1."""

    exponents: Any
    levels: Any

    def arrays(self) -> dict[str, Any]:
        """Return copies of both by name, as a checkpoint keeps them."""
        return {name: array.copy() for name, array in self._asdict().items() if array is not None}


def first(maxima: Any, scale_exponent: int, counts: Any, rule: int = RULE) -> Units:
    """Return units for blocks whose largest numbers are `maxima`, finite.

    Args:
        maxima: each block's largest absolute value, of gradients that are scaled by 2**scale_exponent.
        scale_exponent: of the loss scale; units are kept as for 1.
        counts: of each parameter, how many of the blocks are its.
        rule: 1 or 2.
    """
    if rule == 1:
        return Units(_by_the_largest(maxima) - scale_exponent, None)
    levels = _levels(maxima, scale_exponent, UNSEEN)
    return Units(_wanted(maxima, levels, counts), levels)


def following(units: Units, maxima: Any, scale_exponent: int, counts: Any) -> Units:
    """Return the units after these, by the same rule; `maxima` are those of the step's sums, not all of them zero."""
    if units.levels is None:
        return Units(_approach(units.exponents, _by_the_largest(maxima) - scale_exponent), None)
    levels = _levels(maxima, scale_exponent, units.levels)
    return Units(_approach(units.exponents, _wanted(maxima, levels, counts)), levels)


def _levels(maxima: Any, scale_exponent: int, before: Any) -> Any:
    return np.where(maxima > 0, np.frexp(maxima)[1] - TARGET - scale_exponent, before).astype(np.int32)


def _wanted(maxima: Any, levels: Any, counts: Any) -> Any:
    """Return the exponents that blocks want: their levels; and DEPTH less where they are zero.

    So a block whose numbers fell below its unit is seen again after some steps, and one that was idle is still within
    reach. A block that was never seen is taken for one like its parameter's largest, or the net's. A level above that
    of the step's largest block, as a single giant leaves it, counts as that.
    """
    top = np.int32(levels[maxima > 0].max(initial=UNSEEN))
    if top == UNSEEN:
        top = np.int32(1 - TARGET)  # any will do, if they are the same for everybody
    of_parameters = np.maximum.reduceat(levels, np.cumsum(counts) - counts)
    alike = np.repeat(np.where(of_parameters == UNSEEN, top, of_parameters), counts)
    idle = np.minimum(np.where(levels == UNSEEN, alike, levels), top) - DEPTH
    return np.where(maxima > 0, levels, idle).astype(np.int32)


def _by_the_largest(maxima: Any) -> Any:
    """Return rule 1's exponents: no block's is below the largest block's by more than DEPTH; a block of zeros has that.

    Where there is nothing else the net's largest number counts as 1: any exponents will do, if they are the same for
    everybody.
    """
    wanted = np.frexp(maxima)[1] - TARGET
    top = int(wanted[maxima > 0].max()) if maxima.any() else 1 - TARGET
    finest = max(top - DEPTH, LOWEST)
    return np.where(maxima > 0, np.maximum(wanted, finest), finest).astype(np.int32)


def _approach(exponents: Any, wanted: Any) -> Any:
    """Return the exponents after `exponents`, of which the last sums would have wanted `wanted` ones."""
    lowest = np.maximum(wanted + SLACK, exponents - LEAP)
    return np.maximum(wanted, np.minimum(exponents - FALL, lowest))
