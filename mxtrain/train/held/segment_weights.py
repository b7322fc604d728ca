"""The weights of segments on their way: those of the next one travel while one is computed.

Owns the buffers, of which there are as many as two stages need. How weights travel is `kvstore/owners/`'s.
"""

from __future__ import annotations

import math
from typing import Any, Iterator, Mapping, NamedTuple, Protocol, Sequence, Tuple

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.kvstore.owners.owner import Pull
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray, Parameter

ALIGNMENT = 64  # of MXNet's own arrays
Stage = Tuple[int, ...]  # the places of the segments that are computed with at a time


class Lender(Protocol):
    """The lender of weights: their owners, or a file."""

    def pull(self, indices: Sequence[int], into: Sequence[Array]) -> Pull:
        """Start to copy weights into these arrays."""
        ...


class Coming(NamedTuple):
    """The weights of a stage, on their way into arrays that MXNet will compute with."""

    pull: Pull
    parameters: Sequence[Parameter]
    arrays: Sequence[Array]

    def wait(self) -> dict[str, NDArray]:
        """Return the weights by the names of their parameters, once they are here."""
        self.pull.wait()
        return {each.name: in_mxnet(array, each.shape) for each, array in zip(self.parameters, self.arrays)}


class SegmentWeights:
    """Weights that `owners` lend, of segments with these parameters.

    `indices` are the owners' numbers of parameters, by name.
    """

    def __init__(self, owners: Lender, segments: Sequence[Sequence[Parameter]], indices: Mapping[str, int]):
        self._owners, self._segments, self._indices = owners, segments, indices
        self._buffers = Buffers()

    def of(self, segments: Sequence[Sequence[Parameter]]) -> SegmentWeights:
        """Return the weights of other segments of the same net, from the same owners."""
        return SegmentWeights(self._owners, segments, self._indices)

    def through(self, stages: Sequence[Stage]) -> Iterator[tuple[Stage, dict[str, NDArray]]]:
        """Yield each stage with its weights, which have to be computed with before the next one is asked for."""
        coming = self._start(stages[0])
        try:
            for stage, following in zip(stages, [*stages[1:], None]):
                present, weights = coming, coming.wait()
                if following is not None:
                    coming = self._start(following)
                yield stage, weights
                weights.clear()
                self._buffers.give_back(present.arrays)
        finally:
            coming.pull.wait()  # also after an error: its arrays are written to

    def _start(self, stage: Stage) -> Coming:
        parameters = [each for place in stage for each in self._segments[place]]
        arrays = self._buffers.take([math.prod(each.shape) for each in parameters])
        indices = [self._indices[each.name] for each in parameters]
        return Coming(self._owners.pull(indices, arrays), parameters, arrays)


class Buffers:
    """Flat arrays that are used again by whoever comes next and needs as long ones; others are dropped."""

    def __init__(self, dtype: Any = np.float32) -> None:
        self._free: dict[int, list[Array]] = {}
        self._dtype = np.dtype(dtype)

    def take(self, sizes: Sequence[int]) -> list[Array]:
        """Return arrays of so many numbers, whatever they are, which begin where MXNet's begin."""
        free, self._free = self._free, {}
        return [free[size].pop() if free.get(size) else aligned(size, self._dtype) for size in sizes]

    def give_back(self, arrays: Sequence[Array]) -> None:
        """Take back arrays that nobody reads or writes any more."""
        for array in arrays:
            self._free.setdefault(array.size, []).append(array)


def aligned(size: int, dtype: Any) -> Array:
    """Return an array of so many numbers that begins at a multiple of ALIGNMENT."""
    kind = np.dtype(dtype)
    room = np.empty(size * kind.itemsize + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + size * kind.itemsize].view(kind)


def in_mxnet(array: Array, shape: Sequence[int]) -> NDArray:
    """Return an array of MXNet's in the memory of a flat one of NumPy's, which stays writable."""
    found: NDArray = mx.nd.from_numpy(array[:].reshape(tuple(shape)), zero_copy=True)
    return found
