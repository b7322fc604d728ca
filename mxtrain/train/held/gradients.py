"""The gradients of the segment that is computed backwards: summed over micro-batches, then given to their owners.

Owns the arrays that MXNet writes gradients to, and those of their totals, which go when the segment does. The
arithmetic of exact sums is `optim/sums/`'s.
"""

from __future__ import annotations

import math
from typing import Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.kvstore.owners.owned_head import OwnedHead, SampledHead
from mxtrain.kvstore.owners.owner import GradientSum
from mxtrain.models.heads.chunked_head import Samples, Softmax
from mxtrain.optim.sums.grid import NO_BLOCKS, Grid, write_maxima
from mxtrain.optim.sums.part_totals import PartTotals
from mxtrain.runtime import mx
from mxtrain.runtime.memory import memory
from mxtrain.runtime.types import NDArray, NDArrays, Parameter
from mxtrain.train.held.held_net import Segment
from mxtrain.train.held.segment_weights import Buffers
from mxtrain.train.held.trainer import HeldTrainer


class TrainedParameters:
    """The trained parameters of each segment, and their places among all that are trained."""

    def __init__(self, parameters: Sequence[Parameter], segments: Sequence[Segment]):
        self.indices = {each.name: index for index, each in enumerate(parameters)}  # the owners'
        self.all = [each for each in parameters if each.grad_req != "null"]
        self.places = {each.name: place for place, each in enumerate(self.all)}  # the grid's
        self.of_segments = [
            [each for each in segment.lent if each.name in self.places] for segment in segments
        ]


class StepGradients:
    """The gradients of one segment at a time. `prepare` and `add` are called around each backward pass."""

    def __init__(self, trained: TrainedParameters):
        self.trained = trained
        self._place: int | None = None  # of the segment whose gradients there are
        self._weights: list[NDArray] = []
        self._gradients: list[NDArray] = []

    def prepare(self, place: int, weights: NDArrays) -> None:
        """Have the next backward pass through a segment write the gradients of these weights."""
        if place != self._place:
            self._place = place
            self._weights = [weights[each.name] for each in self.trained.of_segments[place]]
            self._gradients = [mx.nd.empty(each.shape) for each in self._weights]
            mx.autograd.mark_variables(self._weights, self._gradients, "write")
        for weight in self._weights:
            weight._fresh_grad = False

    def add(self, place: int, is_last: bool) -> None:
        """Add what the backward pass through a segment has written; after the last micro-batch the segment is done."""
        for weight, gradient in zip(self._weights, self._gradients):
            if not weight._fresh_grad:  # it does not reach this one
                gradient[:] = 0
        self.take(place, self._gradients, is_last)
        if is_last:
            self._place, self._weights, self._gradients = None, [], []

    def take(self, place: int, gradients: Sequence[NDArray], is_last: bool) -> None:
        """Do with a micro-batch's gradients of a segment what they were computed for."""
        raise NotImplementedError

    def through_head(
        self, head: OwnedHead | SampledHead, samples: Sequence[Samples], softmaxes: Sequence[Softmax]
    ) -> list[Array]:
        """Do the same with those of a head in chunks, and return those of each micro-batch's features."""
        raise NotImplementedError


class PushedGradients(StepGradients):
    """Gradients whose sums go to their owners, exact ones on a `grid`; without one a single micro-batch's."""

    def __init__(self, trained: TrainedParameters, trainer: HeldTrainer, grid: Grid | None, has_others: bool):
        super().__init__(trained)
        self._trainer, self._grid, self._has_others = trainer, grid, has_others
        self._buffers = Buffers(np.float32 if grid is None else grid.dtype)
        self._totals: PartTotals | None = None
        self._pushed: set[int] = set()  # by the owners' numbers

    def take(self, place: int, gradients: Sequence[NDArray], is_last: bool) -> None:
        numbers = [memory(each) for each in gradients]
        parameters = self.trained.of_segments[place]
        totals = self._totals = self._totals or self._new_totals(parameters)
        if totals is not None:
            totals.add(numbers, is_last)
        if not is_last:
            return
        sums = []
        for number, (parameter, values) in enumerate(zip(parameters, numbers)):
            # All digits count only where others' totals are added.
            wide = totals.wide_totals(number) if totals is not None and self._has_others else NO_BLOCKS
            sums.append((parameter, GradientSum(values, *wide)))
        self._push(sums, gradients)
        if totals is not None:
            self._buffers.give_back(totals.totals)
        self._totals = None

    def through_head(
        self, head: OwnedHead | SampledHead, samples: Sequence[Samples], softmaxes: Sequence[Softmax]
    ) -> list[Array]:
        return head.backward(samples, softmaxes, self._grid, self._push_chunk)

    def _push_chunk(self, index: int, total: GradientSum) -> None:
        self._pushed.add(index)
        self._trainer.push_now(index, total)

    def push_others(self) -> None:
        """Give zeros to the owners of all others, which no pass of this worker has reached."""
        for parameter in self.trained.all:
            if self.trained.indices[parameter.name] not in self._pushed:
                zeros = np.zeros(math.prod(parameter.shape), np.float32)
                self._push([(parameter, GradientSum(zeros, *NO_BLOCKS))])

    def end_step(self, is_applied: bool, maxima: Array | None = None) -> None:
        """Take the exponents of the next step from the largest numbers of this one's sums."""
        if self._grid is not None and maxima is not None:
            self._grid.follow(maxima, is_applied)

    def _new_totals(self, parameters: Sequence[Parameter]) -> PartTotals | None:
        if self._grid is None:
            return None
        places = [self.trained.places[each.name] for each in parameters]
        return PartTotals(
            self._grid, places, self._buffers.take([math.prod(each.shape) for each in parameters])
        )

    def _push(self, sums: Sequence[tuple[Parameter, GradientSum]], kept: Sequence[NDArray] = ()) -> None:
        numbered = [(self.trained.indices[each.name], found) for each, found in sums]
        self._pushed.update(index for index, _ in numbered)
        self._trainer.push(numbered, kept)


class LargestGradients(StepGradients):
    """The largest numbers of a first micro-batch's gradients, from which a grid learns its units."""

    def __init__(self, trained: TrainedParameters, grid: Grid):
        super().__init__(trained)
        self._grid = grid
        self.maxima: Array = np.zeros(grid.ends[-1], np.float32)

    def take(self, place: int, gradients: Sequence[NDArray], is_last: bool) -> None:
        places = [self.trained.places[each.name] for each in self.trained.of_segments[place]]
        for number, gradient in zip(places, gradients):
            write_maxima(memory(gradient), self.maxima[self._grid.blocks_of(number)])

    def through_head(
        self, head: OwnedHead | SampledHead, samples: Sequence[Samples], softmaxes: Sequence[Softmax]
    ) -> list[Array]:
        return [head.largest(samples[0], softmaxes[0], self.maxima)]
