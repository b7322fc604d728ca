"""Running statistics of a step whose micro-batches go through one segment after the other.

Those of a micro-batch are complete when it has been through all segments; how a step's move is `StepStatistics`'.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.models.parameters.running_statistics import StepStatistics, num_elements
from mxtrain.runtime.types import Device
from mxtrain.train.held.held_net import Segment
from mxtrain.train.held.micro_batches import MicroBatch


class SegmentStatistics:
    """The statistics of each segment that each micro-batch leaves."""

    def __init__(
        self,
        running: StepStatistics,
        segments: Sequence[Segment],
        micro_batches: Sequence[MicroBatch],
        device: Device,
    ):
        self._running, self._device = running, device
        self._micro_batches = micro_batches
        self._names = [{each.name for each in segment.running} for segment in segments]
        start = zip(running.parameters, running.start[device])
        self._start = {parameter.name: value for parameter, value in start}
        size = num_elements(running.parameters)
        self._left: dict[int, Array] = {each.position: np.empty(size, np.float32) for each in micro_batches}
        for row in self._left.values():  # of those that no pass moves
            for parameter, part in running.split_row(row):
                part[:] = self._start[parameter.name]

    def before_batch(self, place: int) -> None:
        """Reset the statistics of a segment to those of the step's start."""
        for parameter in self._running.parameters:
            if parameter.name in self._names[place]:
                parameter.data(self._device)[:] = self._start[parameter.name]

    def after_batch(self, place: int, position: int) -> None:
        """Note what a micro-batch has left of a segment's; its computation must have ended."""
        if not self._names[place]:
            return
        for parameter, part in self._running.split_row(self._left[position]):
            if parameter.name in self._names[place]:
                part[:] = parameter.data(self._device).asnumpy()

    def finish(self) -> None:
        """Hand over what all micro-batches have left, once all segments have been computed."""
        if not self._running.is_single_batch:
            for each in self._micro_batches:
                self._running.note(self._left[each.position], each.position, each.num_samples)
