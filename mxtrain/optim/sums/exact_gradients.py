"""Gradients that are added exactly: the same bits whoever computes which micro-batch of a step (docs/adr/0020).

Owns when a device's gradients are added, and how MXNet's engine does it while a backward pass still computes others.
Does not own the arithmetic (`grid.py`).
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from mxtrain import native
from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup
from mxtrain.data.fields import Array
from mxtrain.optim.sums.gradients import GradientAccumulator
from mxtrain.optim.sums.grid import Grid, exact_bits
from mxtrain.runtime import engine
from mxtrain.runtime.memory import memory, memory_later
from mxtrain.runtime.types import Device, NDArray, Parameter


class ExactAccumulator(GradientAccumulator):
    """Sums the gradients of all devices, which are CPUs of this process, to the same totals.

    The step's first micro-batch is computed by worker 0 on its first device, however many there are. A worker without
    a micro-batch adds zeros. `has_views` says that gradients are parts of flat arrays; left out, that they are where
    one device's travel to other workers.
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        devices: Sequence[Device],
        grid: Grid,
        loss_scale: float,
        group: WorkerGroup = SINGLE_WORKER,
        has_views: bool | None = None,
    ):
        super().__init__(parameters, devices)
        self.grid, self.group = grid, group
        grid.start_step(loss_scale)
        self.learns = grid.exponents is None
        # Gradients that travel are views of their buckets and stay where they are; others oneDNN moves as it likes. To
        # learn a grid, and to add what several devices compute, takes all of a gradient.
        if has_views is None:
            has_views = group.world_size > 1 and len(devices) == 1
        self.waits = self.learns or not has_views or native.new_addition is None

    def before_backward(self, device: Device) -> None:
        """Add the device's last gradients before the next backward pass overwrites them."""
        if device in self.sums:
            self._add(self._last(device))
        self.sums[device] = []

    def write_sums(self) -> list[NDArray]:
        """Write the sums to the first device's arrays, and zeros to all others.

        Where nothing has to be waited for, a sum is written once the backward pass has computed the gradient.
        """
        first_device, *others = self.devices
        first = self._last(first_device)
        if self.learns:
            self._learn(first)
        for device in others:
            if device in self.sums:
                self._add(self._last(device))
        self._add(first, is_last=True)
        for parameter in self.parameters:
            for gradient in parameter.list_grad()[1:]:
                gradient[:] = 0
        self._set_fresh(True)
        return first

    def wide_blocks(self) -> Array:
        """Return of each block whether its sums, once computed, have more digits than servers add exactly."""
        if self.group.world_size == 1 or self.grid.in_place:
            return np.zeros(self.grid.ends[-1], bool)  # one worker's they only copy, and two they round once
        return self.grid.are_beyond(exact_bits(self.group.world_size))

    def end_step(self, is_applied: bool, maxima: Array | None = None) -> None:
        if maxima is None:
            self.grid.end_step(list(map(memory, self.first_gradients())), is_applied)
        else:
            self.grid.follow(maxima, is_applied)

    def _add(self, gradients: Sequence[NDArray], is_last: bool = False) -> None:
        if self.learns:
            self._learn(gradients)
        if self.grid.is_left_to_sums and self.grid.exponents is not None:
            return
        if self.waits:
            self.grid.add([memory(gradient) for gradient in gradients], is_last)
            return
        numbers = [memory_later(gradient) for gradient in gradients]
        additions = list(zip(gradients, self.grid.additions(numbers, is_last)))
        for gradient, addition in reversed(additions):  # in the order of the backward pass and of the buckets
            _add_in_engine(gradient, addition)

    def _learn(self, gradients: Sequence[NDArray]) -> None:
        """Let all workers take the grid from worker 0's first gradients; a collective."""
        self.learns = False
        numbers = [memory(gradient) for gradient in gradients]
        own = self.grid.maxima(numbers) if self.group.rank == 0 else np.zeros(self.grid.ends[-1])
        self.grid.learn(self.group.sum(own))


def _add_in_engine(gradient: NDArray, addition: Sequence[Any]) -> None:
    """Let MXNet's engine make an addition."""
    assert native.new_addition is not None
    new = native.new_addition(*addition)
    handles = engine.handles([gradient])
    engine.push(native.ADD_IN_ENGINE, new, native.FREE, engine.NOTHING, handles, is_prioritized=True)
