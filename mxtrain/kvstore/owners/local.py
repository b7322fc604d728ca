"""The owner of all parameters in the one process that trains: `Owners` that need no connection."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, Sequence

from mxtrain.data.fields import Array
from mxtrain.kvstore.owners.layout import Layout
from mxtrain.kvstore.owners.owner import GradientSum, StepSums
from mxtrain.kvstore.owners.parameter_owner import ParameterOwner
from mxtrain.kvstore.owners.step_sum import PIECE
from mxtrain.optim.update import Update
from mxtrain.runtime.types import Optimizer


class Arrived:
    """Numbers that are there as soon as they are asked for."""

    def wait(self) -> None:
        """Do nothing."""


class LocalOwners:
    """The `Owners` of the parameters of `layout`, moved by `optimizer`; what they hold may be in files of `folder`."""

    def __init__(self, layout: Layout, optimizer: Optimizer, folder: Path | None = None):
        self._owner = ParameterOwner(layout, range(len(layout.names)), folder=folder, optimizer=optimizer)

    def put(self, index: int, weights: Array) -> None:
        self._owner.weights(index)[:] = weights

    def pull(self, indices: Sequence[int], into: Sequence[Array]) -> Arrived:
        for index, array in zip(indices, into):
            array[:] = self._owner.weights(index)
        return Arrived()

    def pull_sums(self, indices: Sequence[int], into: Sequence[Array]) -> Arrived:
        for index, array in zip(indices, into):
            array[:] = self._owner.sum_of(index).numbers
        return Arrived()

    def push(self, index: int, gradient: GradientSum) -> None:
        total = self._owner.sum_of(index)
        for start in range(0, len(gradient.values), PIECE):
            values = gradient.values[start : start + PIECE]
            total.add(start, values, gradient.wide_blocks, gradient.wide_totals)
        self._owner.finish_addend(index)

    def finish(self) -> StepSums:
        return self._owner.step_sums()

    def apply(self, update: Update) -> None:
        self._owner.apply(update)

    def drop(self) -> None:
        self._owner.drop()

    def read_state(self, index: int) -> list[Array]:
        return [array.copy() for array in self._owner.state(index)]

    def write_state(self, index: int, arrays: Sequence[Array]) -> None:
        self._owner.write_state(index, arrays)

    def update_counts(self) -> Mapping[str, int]:
        return self._owner.update_counts()

    def set_update_counts(self, counts: Mapping[str, int]) -> None:
        self._owner.set_update_counts(counts)
