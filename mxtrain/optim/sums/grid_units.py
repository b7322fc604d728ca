"""Units of the blocks of gradients: those of a first step, and those that follow from a step's sums (docs/adr/0020).

Owns the rules, of which a run keeps the one that it began with, so that it ends with the bits it would have had. The
arithmetic with units is `grid.py`'s. Knows arrays of NumPy only.

A unit that is too coarse takes small gradients for zero, and one that is too fine has no large ones within reach. So
rule 3 gives each block a unit of its own, but none finer than that of its parameter's largest block by more than
2**DEPTH: the row of a class may be tiny until a sample has that class. And what a parameter's largest numbers ever were
stays within reach, up to those of the net. Rules of versions before: 2 knew no such bounds; 1 has no unit finer than
that of the net's largest block by more than 2**DEPTH, and takes gradients for zero that are smaller than that one's by
2**39 and more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mxtrain.data.fields import Array

RULE = 3  # of new runs
TARGET = 18  # the largest sum of a block is nearly 2**TARGET units, and its rounding 2**-TARGET of it
DEPTH = 20  # a block of zeros has a unit finer than that of its last numbers by no more than 2**DEPTH
# Units shrink by 2**FALL a step: a block whose sum fell often grows again, and then has more digits than float32. One
# that is left more than 2**SLACK too coarse, as by a single giant, follows at once, but for no more than 2**LEAP.
FALL, SLACK, LEAP = 2, 4, 8
REMEMBERED = (
    29  # a parameter's unit is finer by no more than 2**REMEMBERED than that of its largest numbers ever
)
LOWEST = -126  # of float32's normal numbers
ANY = 127  # a peak above all levels
UNSEEN = np.iinfo(np.int32).min  # the level of a block that has had nothing but zeros


class Units(NamedTuple):
    """The `exponents` of all blocks, int32, and what they follow from.

    `levels` are what the last numbers of each block wanted, None with rule 1; `peaks` the highest level that each
    parameter ever had, None with rules 1 and 2.
    """

    exponents: Array
    levels: Array | None
    peaks: Array | None = None

    def arrays(self) -> dict[str, Array]:
        """Return copies of both by name, as a checkpoint keeps them."""
        return {name: array.copy() for name, array in self._asdict().items() if array is not None}


def first(maxima: Array, scale_exponent: int, counts: Array, rule: int = RULE) -> Units:
    """Return units for blocks whose largest numbers are `maxima`, finite.

    Args:
        maxima: each block's largest absolute value, of gradients that are scaled by 2**scale_exponent.
        scale_exponent: of the loss scale; units are kept as for 1.
        counts: of each parameter, how many of the blocks are its.
        rule: 1, 2 or 3.
    """
    if rule == 1:
        return Units(_by_the_largest(maxima) - scale_exponent, None)
    levels = _levels(maxima, scale_exponent, UNSEEN)
    peaks = _highest(levels, counts) if rule > 2 else None
    return Units(_wanted(maxima, levels, counts, peaks), levels, peaks)


def following(units: Units, maxima: Array, scale_exponent: int, counts: Array) -> Units:
    """Return the units after these, by the same rule; `maxima` are those of the step's sums, not all of them zero."""
    if units.levels is None:
        return Units(_approach(units.exponents, _by_the_largest(maxima) - scale_exponent), None)
    levels, peaks, wanted = _next(units, maxima, scale_exponent, counts)
    return Units(_approach(units.exponents, wanted), levels, peaks)


def raised(units: Units, maxima: Array, reach: Array, scale_exponent: int, counts: Array) -> Units | None:
    """Return the units after a step in which the `maxima` of some blocks were beyond their `reach`, and so infinite.

    Such parameters are taken for ones that may be as large as the net's largest from here on. None, unknown again,
    where no number of the step was within reach, and with rules that have no peaks.
    """
    is_beyond = np.isinf(maxima)
    if units.peaks is None or not maxima[~is_beyond].any():
        return None
    peaks = np.where(_highest(is_beyond, counts), ANY, units.peaks).astype(np.int32)
    found = np.where(is_beyond, reach, maxima)
    levels, highest, wanted = _next(units._replace(peaks=peaks), found, scale_exponent, counts)
    return Units(np.maximum(units.exponents, wanted), levels, highest)


def _next(
    units: Units, maxima: Array, scale_exponent: int, counts: Array
) -> tuple[Array, Array | None, Array]:
    """Return the levels and peaks after a step, and the exponents that they want."""
    assert units.levels is not None  # as with each rule but the first
    levels = _levels(maxima, scale_exponent, units.levels)
    peaks = None if units.peaks is None else np.maximum(units.peaks, _highest(levels, counts))
    return levels, peaks, _wanted(maxima, levels, counts, peaks)


def _highest(of_blocks: Array, counts: Array) -> Array:
    """Return the highest value of each parameter's blocks."""
    return np.maximum.reduceat(of_blocks, np.cumsum(counts) - counts)


def _levels(maxima: Array, scale_exponent: int, before: Array | int) -> Array:
    return np.where(maxima > 0, np.frexp(maxima)[1] - TARGET - scale_exponent, before).astype(np.int32)


def _wanted(maxima: Array, levels: Array, counts: Array, peaks: Array | None = None) -> Array:
    """Return the exponents that blocks want: their levels; and DEPTH less where they are zero.

    So a block whose numbers fell below its unit is seen again after some steps, and one that was idle is still within
    reach. A block that was never seen is taken for one like its parameter's largest, or the net's. A level above that
    of the step's largest block, as a single giant leaves it, counts as that.
    """
    top = np.int32(levels[maxima > 0].max(initial=UNSEEN))
    if top == UNSEEN:
        top = np.int32(1 - TARGET)  # any will do, if they are the same for everybody
    highest = _highest(levels, counts)
    alike = np.where(highest == UNSEEN, top, highest)
    idle = np.minimum(np.where(levels == UNSEEN, np.repeat(alike, counts), levels), top) - DEPTH
    wanted = np.where(maxima > 0, levels, idle)
    if peaks is not None:
        ever = np.maximum(np.where(peaks == UNSEEN, top, peaks), alike)
        finest = np.maximum(np.minimum(alike, top) - DEPTH, np.minimum(ever, top) - REMEMBERED)
        wanted = np.maximum(wanted, np.repeat(finest, counts))
    return wanted.astype(np.int32)


def _by_the_largest(maxima: Array) -> Array:
    """Return rule 1's exponents: no block's is below the largest block's by more than DEPTH; a block of zeros has that.

    Where there is nothing else the net's largest number counts as 1: any exponents will do, if they are the same for
    everybody.
    """
    wanted = np.frexp(maxima)[1] - TARGET
    top = int(wanted[maxima > 0].max()) if maxima.any() else 1 - TARGET
    finest = max(top - DEPTH, LOWEST)
    return np.where(maxima > 0, np.maximum(wanted, finest), finest).astype(np.int32)


def _approach(exponents: Array, wanted: Array) -> Array:
    """Return the exponents after `exponents`, of which the last sums would have wanted `wanted` ones."""
    lowest = np.maximum(wanted + SLACK, exponents - LEAP)
    return np.maximum(wanted, np.minimum(exponents - FALL, lowest))
