"""Sums of gradients that do not depend on their order, because they are exact (docs/adr/0020).

Owns the grid and the arithmetic on it. A parameter's gradient is cut into blocks of 1,024 numbers, and a block has an
exponent: before they are first added its numbers are rounded to multiples of a unit, 2**exponent. Float64 adds such
multiples without rounding. The exponents of a step follow from the sum of the step before it, which is the same
whoever computed it, and a grid without any takes them from the first gradient that it sees (`grid_units.py`). Knows
arrays of NumPy only; whose gradients are added, and when, is `exact_gradients.py`'s.

Where mxtrain's part in C is built it does what `add_rounded` and `_write_maxima` do, to the same bits in less time.
"""

from __future__ import annotations

import math
from typing import Any, Mapping, Sequence

import numpy as np

from mxtrain import native
from mxtrain.data.fields import Array
from mxtrain.optim.sums import grid_units
from mxtrain.optim.sums.grid_units import LOWEST, Units

BLOCK = 1024
# Rounding takes the digits below a unit away from numbers below 2**51 units, and float64 has 2**53 of them.
LARGEST, DIGITS = 51, 53
FLOAT32_DIGITS = 24
NO_BLOCKS: tuple[Array, Array] = np.zeros(0, np.int64), np.zeros(0)
PIECE = BLOCK * 256  # as many numbers at a time are added without C, which needs arrays in between


class Grid:
    """The exponents for gradients of these `sizes`, None until one is known, and the `totals` of a step.

    A step adds up to `num_addends` gradients, and if it `is_single` one of them to these totals. Exponents are kept as
    for a loss scale of 1, so that a scale which is a power of two moves no bit. Arrays stay where they are, for
    additions that are made later. Unless it `has_totals`, those of some parameters at a time are elsewhere
    (`part_totals.py`), or if it is `in_place` a single gradient is rounded where it is, which is its total then: for
    sums of two such gradients, which float32 rounds once.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        num_addends: int,
        is_single: bool = False,
        has_totals: bool = True,
        in_place: bool = False,
    ):
        self.counts = np.array([num_blocks(size) for size in sizes])
        self.ends = np.cumsum(self.counts)
        bits_of_addends = math.ceil(math.log2(num_addends))
        self.reach = min(LARGEST, DIGITS - bits_of_addends)
        # With it no sum leaves float32, whatever part of it who adds.
        self.highest = 127 - bits_of_addends - self.reach
        self.units: Units | None = None
        self.before: Units | None = None
        self.rule, self.scale_exponent = grid_units.RULE, 0
        # Exponents for gradients that are scaled with the loss.
        self.scaled = np.zeros(self.ends[-1], np.int32)
        # A single gradient has no more digits on a grid than before.
        self.dtype = np.dtype(np.float32 if is_single else np.float64)
        self.in_place = in_place
        self.is_left_to_sums = False  # who adds workers' gradients rounds them (`block_tables.py`)
        self.totals = [np.zeros(size, self.dtype) for size in sizes] if has_totals and not in_place else []
        self.is_empty = True  # whatever the totals hold
        # Absolute value in each block of the finished totals.
        self.largest = np.zeros(self.ends[-1], np.float32)
        # The same by parameter: every step asks for them.
        self._scaled_of, self._largest_of = (
            np.split(array, self.ends[:-1]) for array in (self.scaled, self.largest)
        )

    @property
    def exponents(self) -> Array | None:
        """Of all blocks, int32; None where they are not known."""
        return None if self.units is None else self.units.exponents

    def restore(self, rule: int, arrays: Mapping[str, Array]) -> bool:
        """Go on by a saved `rule`, from saved units if there are any; return False for a rule that is not known.

        Units of other parameters, trained before a `--freeze`, are not taken.
        """
        if rule > grid_units.RULE:
            return False
        self.rule = rule
        if arrays and arrays["exponents"].shape == (self.ends[-1],):
            levels, peaks = (
                arrays[name] if rule > since else None for name, since in (("levels", 1), ("peaks", 2))
            )
            self.units = Units(arrays["exponents"], levels, peaks)
        return True

    def start_step(self, loss_scale: float) -> None:
        """Begin new totals; gradients of the step are `loss_scale` times what they would be."""
        self.before, self.scale_exponent = self.units, math.frexp(loss_scale)[1] - 1
        self.is_empty = True
        self._scale()

    def learn(self, maxima: Array) -> None:
        """Take exponents from the largest numbers of the step's first gradient, the same for all workers."""
        numbers = np.asarray(maxima, np.float32)
        self.units = self._first(numbers) if np.isfinite(numbers).all() else None
        self._scale()

    def _scale(self) -> None:
        if self.units is not None:
            wanted = self.units.exponents + self.scale_exponent
            np.clip(wanted, LOWEST, self.highest, out=self.scaled, casting="unsafe")

    def add(self, gradients: Sequence[Array], is_last: bool = False) -> None:
        """Add float32 gradients to the totals; write the finished ones over the last, and their blocks' `largest`.

        A number that is not finite becomes no number, so that nothing can take it away again, and one that is out of
        reach infinity. Without exponents nothing is one.
        """
        add = native.add_on_grid or add_rounded
        for addition in self.additions(gradients, is_last):
            add(*addition)
        if self.exponents is None:
            for array in (*self.totals, *(gradients if is_last else ())):
                array[:] = np.nan

    def additions(self, gradients: Sequence[Array], is_last: bool) -> list[tuple[Any, ...]]:
        """Return the arguments of `native.add_on_grid` for each gradient; all are to be added, in any order."""
        is_first, self.is_empty = self.is_empty, False
        totals = gradients if self.in_place else self.totals
        maxima: Sequence[Array | None] = self._largest_of if is_last else [None] * len(gradients)
        return [
            (total, gradient, of_blocks, self.reach, is_first, largest)
            for total, gradient, of_blocks, largest in zip(totals, gradients, self._scaled_of, maxima)
        ]

    def are_beyond(self, num_bits: int) -> Array:
        """Return of each block whether a total has 2**num_bits units or more."""
        if self.exponents is None:
            return np.zeros(self.ends[-1], bool)
        return self.largest >= np.ldexp(1.0, self.scaled + num_bits)

    def wide_totals(self, place: int) -> tuple[Array, Array]:
        """Return which blocks of the total at `place` have more digits than float32, and their numbers, end to end."""
        total, blocks = self.totals[place], self.blocks_of(place)
        if total.dtype == np.float32:
            return NO_BLOCKS
        is_wide = self.largest[blocks] >= np.ldexp(1.0, self.scaled[blocks] + FLOAT32_DIGITS)
        numbers = np.flatnonzero(is_wide)
        if not len(numbers):
            return NO_BLOCKS
        return numbers, np.concatenate([total[BLOCK * each : BLOCK * (each + 1)] for each in numbers])

    def blocks_of(self, place: int) -> slice:
        """Return the blocks of the parameter at a place."""
        end = int(self.ends[place])
        return slice(end - int(self.counts[place]), end)

    def block(self, arrays: Sequence[Array], number: int) -> Array:
        """Return the numbers of a block, one of all parameters' blocks, in `arrays` like the totals."""
        index = int(np.searchsorted(self.ends, number, side="right"))
        start = BLOCK * (number - (self.ends[index - 1] if index else 0))
        return arrays[index][start : start + BLOCK]

    def end_step(self, sums: Sequence[Array], is_applied: bool) -> None:
        """Take exponents for the next step from the sums of this one."""
        self.follow(self.maxima(sums), is_applied)

    def follow(self, maxima: Array, is_applied: bool) -> None:
        """Take exponents for the next step from the `maxima` of the sums of this one.

        A step that is not applied leaves them as they were; but where a number was out of reach they are raised. They
        are unknown again where all sums of a step that is applied are zero.
        """
        is_out_of_reach = np.isinf(maxima).any() and not np.isnan(maxima).any()
        if is_out_of_reach:
            reach = np.ldexp(1.0, self.scaled + self.reach)
            self.units = self.units and grid_units.raised(
                self.units, maxima, reach, self.scale_exponent, self.counts
            )
        elif is_applied and not maxima.any():
            self.units = None
        elif is_applied:
            assert self.units is not None
            self.units = grid_units.following(self.units, maxima, self.scale_exponent, self.counts)
        else:
            self.units = self.before

    def _first(self, maxima: Array) -> Units:
        return grid_units.first(maxima, self.scale_exponent, self.counts, self.rule)

    def maxima(self, gradients: Sequence[Array]) -> Array:
        """Return the largest absolute value of each block; not finite where one of its numbers is not."""
        found = np.empty(self.ends[-1], np.float32)
        for gradient, maxima in zip(gradients, np.split(found, self.ends[:-1])):
            write_maxima(gradient, maxima)
        return found


def write_maxima(values: Array, maxima: Array) -> None:
    """Write the largest absolute value of each block of `values` to `maxima`, as `Grid.maxima` returns them."""
    (native.block_maxima or _write_maxima)(values, maxima)


def num_blocks(size: int) -> int:
    return math.ceil(size / BLOCK)


def exact_bits(num_workers: int) -> int:
    """Return of how many bits numbers of units may be that float32 adds exactly, one from each worker."""
    return FLOAT32_DIGITS - math.ceil(math.log2(num_workers))


def add_rounded(
    total: Array, values: Array, exponents: Array, reach: int, is_first: bool, maxima: Array | None
) -> None:
    """Add float32 `values` to a total, each rounded to its block's unit, as `Grid.add` says."""
    for start in range(0, len(values), PIECE):
        part = values[start : start + PIECE].astype(np.float64)
        of_blocks = np.ldexp(1.0, exponents[start // BLOCK : (start + PIECE) // BLOCK])
        units = np.repeat(of_blocks, BLOCK)[: len(part)]
        rounder = 1.5 * 2.0**52 * units  # beside which float64 has no digits below a unit
        with np.errstate(invalid="ignore", over="ignore"):
            rounded = (part + rounder) - rounder
            rounded[np.abs(part) > 2.0**reach * units] = np.inf
            rounded[~np.isfinite(part)] = np.nan
            total[start : start + PIECE] = rounded + (0.0 if is_first else total[start : start + PIECE])
    if maxima is not None:
        with np.errstate(over="ignore"):
            values[:] = total
        _write_maxima(values, maxima)


def _write_maxima(values: Array, maxima: Array) -> None:
    np.maximum.reduceat(np.abs(values), np.arange(0, len(values), BLOCK), out=maxima)
