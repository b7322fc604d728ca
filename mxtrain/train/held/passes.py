"""The forward and the backward pass of a step's micro-batches, all of them through one segment after the other.

A segment's weights are here while all micro-batches go through it, forwards and once more backwards. The last segment
goes with the loss, forwards and backwards, one micro-batch after the other. Random numbers and all results are those of
`models/remat.py`, to the bit.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Sequence

from mxtrain.core.errors import UsageError
from mxtrain.models import remat
from mxtrain.runtime import mx
from mxtrain.train.context import TrainContext
from mxtrain.train.held.gradients import StepGradients
from mxtrain.train.held.held_net import HeldNet
from mxtrain.train.held.micro_batches import MicroBatch, net_input
from mxtrain.train.held.segment_weights import Stage
from mxtrain.train.held.statistics import SegmentStatistics
from mxtrain.train.step import row_of
from mxtrain.train.step_end import StepRow

if TYPE_CHECKING:
    from mxtrain.runtime.types import NDArray, NDArrays, Net


@dataclasses.dataclass(frozen=True)
class Passes:
    """The passes of these micro-batches through the net, whose losses are multiplied by `scale`."""

    context: TrainContext
    net: HeldNet
    micro_batches: Sequence[MicroBatch]
    gradients: StepGradients
    statistics: SegmentStatistics
    scale: float

    def run(self) -> dict[int, StepRow]:
        """Compute all gradients; return the row of each micro-batch, by its position."""
        last = len(self.net.segments) - 1
        stages = self._forward_stages()
        end = 0 if self.context.needs_input_grad else self.net.first_trained
        backward: list[Stage] = [(place,) for place in reversed(range(end, last))]
        rows: dict[int, StepRow] = {}
        clock = self.context.clock
        for number, (stage, weights) in enumerate(self.net.lender().through([*stages, *backward])):
            if last in stage:
                clock.lap("forward")
                self._through_the_last(stage, weights, rows)
                clock.lap("loss")
            elif number < len(stages):
                self._forward(stage[0], weights)
            else:
                self._backward(stage[0], weights, is_first=stage[0] == end)
            mx.nd.waitall()  # before the weights go
            self.context.group.report_progress()
        clock.lap("backward")
        return rows

    def _forward_stages(self) -> list[Stage]:
        """Return the segments that are computed at a time on the way forwards.

        A last one that draws random numbers goes on where the one before it that draws some ends, and MXNet cannot
        return to a position in a stream. So those are here at once.
        """
        last = len(self.net.segments) - 1
        drawing = [place for place in range(last) if self.net.is_random[place]]
        joined = drawing[-1] if drawing and self.net.is_random[last] else last
        return [*((place,) for place in range(joined)), tuple(range(joined, last + 1))]

    def _forward(self, place: int, weights: NDArrays) -> None:
        for each in self.micro_batches:
            if place == 0:
                self._begin(each, net_input(self.context, each))
            self._pass_on(each, place, weights)
            self._draw_seed(each, place + 1)

    def _begin(self, micro_batch: MicroBatch, data: NDArray) -> None:
        if self.context.needs_input_grad:
            data.attach_grad()
        micro_batch.data, micro_batch.passed = data, [data]
        self._draw_seed(micro_batch, 0)

    def _pass_on(self, micro_batch: MicroBatch, place: int, weights: NDArrays) -> None:
        """Compute a segment that is computed once more on the way back."""
        remat.set_seed(micro_batch.seeds.get(place), self.context.devices[0])
        with mx.autograd.pause(train_mode=True):
            passed = self.net.computed(place, weights, micro_batch.passed[-1], micro_batch.data)
        # MXNet allocates memory when operators are called: without waiting, for all micro-batches at once.
        passed.wait_to_read()
        micro_batch.passed.append(passed)

    def _draw_seed(self, micro_batch: MicroBatch, place: int) -> None:
        """Draw the seed of the next segment that draws numbers, if that comes next in the stream of random numbers."""
        last = len(self.net.segments) - 1
        upcoming = next((p for p in range(place, last) if self.net.is_random[p]), None)
        if upcoming is not None and upcoming not in micro_batch.seeds:
            micro_batch.seeds[upcoming] = remat.draw_seed(self.context.devices[0])

    def _through_the_last(self, stage: Stage, weights: NDArrays, rows: dict[int, StepRow]) -> None:
        """Compute what is left of the net, and the loss, and go back through the last segment."""
        last = stage[-1]
        for each in self.micro_batches:
            self.statistics.before_batch(last)
            self.gradients.prepare(last, weights)
            rows[each.position] = self._loss(each, stage, weights)
            self.gradients.add(last, is_last=each is self.micro_batches[-1])
            self.statistics.after_batch(last, each.position)

    def _loss(self, micro_batch: MicroBatch, stage: Stage, weights: NDArrays) -> StepRow:
        """Compute what is left of the net, and the loss, then backwards; return the micro-batch's row.

        What the task draws at random before it calls the net it draws once more, the same.
        """
        last_net, ends = self._rest(micro_batch, stage, weights)
        mx.random.seed(micro_batch.seed, ctx=self.context.devices[0])
        with mx.autograd.record():
            outcome = self.context.forward(last_net, micro_batch.arrays)
            scaled = outcome.losses * self.scale if self.scale != 1.0 else outcome.losses
        scaled.backward()
        row = row_of(self.context, outcome, micro_batch.num_samples)
        mx.nd.waitall()
        micro_batch.gradient = ends[0].grad
        return row

    def _rest(self, micro_batch: MicroBatch, stage: Stage, weights: NDArrays) -> tuple[Net, list[NDArray]]:
        """Return a function in the place of the net, which computes what is left, and a list for the last one's input.

        That input is there once the function has been called.
        """
        *before, last = stage
        ends: list[NDArray] = []

        def net(data: NDArray) -> NDArray:
            if ends:
                raise UsageError(f"{self.net.flag}: the task computes its net twice for a loss; leave it out")
            if stage[0] == 0:
                self._begin(micro_batch, data)
            for place in before:
                self._pass_on(micro_batch, place, weights)
            ends.append(micro_batch.passed.pop())
            ends[0].attach_grad()
            return self.net.computed(last, weights, ends[0], micro_batch.data)

        return net, ends

    def _backward(self, place: int, weights: NDArrays, is_first: bool) -> None:
        for each in self.micro_batches:
            self.statistics.before_batch(place)
            self.gradients.prepare(place, weights)
            passed = each.passed.pop()
            if not is_first:
                passed.attach_grad()
            remat.set_seed(each.seeds.get(place), self.context.devices[0])
            with mx.autograd.record():
                output = self.net.computed(place, weights, passed, each.data)
            output.backward(each.gradient)
            each.gradient = passed.grad
            del output
            mx.nd.waitall()
            self.gradients.add(place, is_last=each is self.micro_batches[-1])
            self.statistics.after_batch(place, each.position)
