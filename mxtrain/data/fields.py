"""Named arrays: what a sample is made of, and how the samples of a micro-batch lie in one piece of memory.

Owns that layout, and the lengths of samples that vary (docs/adr/0021). Does not know what the numbers mean: that is the
task's, whose reader makes a sample's values.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Dict, Mapping, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Dict[str, Array]
Memory = npt.NDArray[np.uint8]
ALIGNMENT = 64  # of each array


class BadSample(ValueError):
    """The reason why a reader makes no sample of a record, and what to do about it."""


class Field(NamedTuple):
    """An array of each sample, of this shape.

    With a `multiple` the first dimension varies, up to that of `shape`: the rows of a micro-batch are as long as its
    longest sample, rounded up to a multiple, and hold `fill` behind each sample's end.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    multiple: int = 0
    fill: float = 0.0

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Return whether a sample may have this shape."""
        if not self.multiple:
            return shape == self.shape
        return len(shape) == len(self.shape) and shape[0] <= self.shape[0] and shape[1:] == self.shape[1:]

    def __str__(self) -> str:
        most = "up to " if self.multiple else ""
        return f"{self.name} {most}{self.shape}"


class Rows(NamedTuple):
    """The samples of a micro-batch, each at the full length of its fields, and the own lengths of those that vary."""

    arrays: Arrays  # (samples, *shape) each
    lengths: Mapping[str, npt.NDArray[np.int64]]

    def write(self, fields: Sequence[Field], row: int, values: Mapping[str, Any]) -> None:
        """Write a sample's values into its row; BadSample for a shape, TypeError for a type that does not fit."""
        for field in fields:
            array, target = np.asarray(values[field.name]), self.arrays[field.name][row, ...]
            if not field.fits(array.shape):
                raise BadSample(f"its {field.name} has the shape {array.shape}, but the task takes {field}")
            if field.multiple:
                self.lengths[field.name][row] = len(array)
                target = target[: len(array)]
            np.copyto(target, array, casting="same_kind")


class _Place(NamedTuple):
    """An array in the memory of a micro-batch: a field's, or the own lengths of its samples."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    offset: int


def num_bytes(fields: Sequence[Field], num_samples: int) -> int:
    """Return the size of the memory that a micro-batch takes."""
    return _layout(tuple(fields), num_samples)[-1].offset


def rows(fields: Sequence[Field], num_samples: int, memory: Memory) -> Rows:
    """Return a micro-batch's rows as views of `memory`."""
    places, count = _layout(tuple(fields), num_samples), len(fields)
    views: list[Any] = [np.ndarray(each.shape, each.dtype, memory, each.offset) for each in places[:-1]]
    names = [each.name for each in places]
    return Rows(dict(zip(names, views[:count])), dict(zip(names[count:], views[count:])))


def cut(fields: Sequence[Field], whole: Rows) -> Arrays:
    """Return the arrays of a micro-batch whose rows are all written; those that vary are moved together in memory."""
    for field in fields:
        if field.multiple:
            whole.arrays[field.name] = _cut(field, whole.arrays[field.name], whole.lengths[field.name])
    return whole.arrays


def rounded_length(field: Field, longest: int) -> int:
    """Return the length of the rows of a micro-batch whose longest sample is this long."""
    return min(field.shape[0], max(1, math.ceil(longest / field.multiple)) * field.multiple)


def _cut(field: Field, array: Array, lengths: npt.NDArray[np.int64]) -> Array:
    shape = (len(array), rounded_length(field, int(lengths.max())), *field.shape[1:])
    together = array.reshape(-1)[: math.prod(shape)].reshape(shape)
    for row, length in enumerate(lengths.tolist()):  # no row is moved onto one that is still to be moved
        together[row, :length] = array[row, :length]
        together[row, length:] = field.fill
    return together


@functools.lru_cache(maxsize=64)
def _layout(fields: tuple[Field, ...], num_samples: int) -> tuple[_Place, ...]:
    """Return the places of all fields, then those of lengths, then the end, which is no array."""
    varying = [field for field in fields if field.multiple]
    arrays = [(field.name, (num_samples, *field.shape), field.dtype) for field in fields]
    arrays += [(field.name, (num_samples,), "int64") for field in varying]
    places, offset = [], 0
    for name, shape, dtype in arrays:
        places.append(_Place(name, shape, dtype, offset))
        num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        offset += -(-num_bytes // ALIGNMENT) * ALIGNMENT
    return (*places, _Place("", (), "", offset))
