"""Gradient accumulation: the gradients of a step's micro-batches, summed on each device.

Owns what a device's gradient arrays hold when a trainer reduces them, and how they are unscaled and clipped after.
Does not own the reduction over devices and workers (`kvstore`) or the arithmetic of exact sums (`grid.py`).
"""

from __future__ import annotations

import ctypes
from typing import Any, Iterator, Sequence

import numpy as np

from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup
from mxtrain.models import sparse_rows
from mxtrain.optim.grid import Grid, exact_bits
from mxtrain.runtime import mx


class GradientAccumulator:
    """Sums the gradients of each device's micro-batches into its gradient arrays.

    `grad_req='add'` would do it, but silently gives zeros under AMP. A parameter that a backward pass does not reach
    keeps its old gradient in MXNet: here it counts as zero, and so does a device without work.
    """

    def __init__(self, parameters: Sequence[Any], contexts: Sequence[Any]):
        self.contexts = contexts
        self.parameters = [parameter for parameter in parameters if parameter.grad_req != "null"]
        self.sums: dict[Any, list[Any]] = {}
        # Gradients that a step without an update left behind must never be taken for new ones.
        self._set_fresh(False)

    def before_backward(self, context: Any) -> None:
        """Save the device's last gradients before the next backward pass overwrites them."""
        if context not in self.sums:
            self.sums[context] = []
        elif not self.sums[context]:
            self.sums[context] = [gradient.copy() for gradient in self._last(context)]
        else:
            for total, gradient in zip(self.sums[context], self._last(context)):
                total += gradient

    def write_sums(self) -> list[Any]:
        """Write each device's sums to its gradient arrays, and return the first device's arrays."""
        for context in self.contexts:
            gradients = self._last(context)
            for total, gradient in zip(self.sums.get(context, []), gradients):
                gradient += total
        self._set_fresh(True)
        return [parameter.grad(self.contexts[0]) for parameter in self.parameters]

    def end_step(self, is_applied: bool) -> None:
        """Note whether the step's sums, which the gradient arrays hold by now, are applied; called before `unscale`."""

    def unscale(self, scale: float) -> None:
        """Divide the gradients on every device by the loss scale.

        This is an operator of its own, because as part of an optimizer's factor or a clip's limit a scale would change
        how MXNet reads that number: it reads float32 from decimals, and takes some x / 1024 for a neighbouring number.
        """
        if scale != 1.0:
            for gradient in self._on_all_devices():
                gradient *= 1.0 / scale

    def clip(self, limit: float) -> None:
        """Clip the gradients on every device to [-limit, limit]."""
        for gradient in self._on_all_devices():
            mx.nd.clip(gradient, -limit, limit, out=gradient)

    def _on_all_devices(self) -> Iterator[Any]:
        return (parameter.grad(context) for context in self.contexts for parameter in self.parameters)

    def _last(self, context: Any) -> list[Any]:
        """Return the gradients of the last backward pass there, zero where it did not reach."""
        gradients = []
        for parameter in self.parameters:
            data, gradient = parameter.data(context), parameter.grad(context)
            if not data._fresh_grad:
                sparse_rows.set_zero(gradient)
            data._fresh_grad = False
            gradients.append(gradient)
        return gradients

    def _set_fresh(self, fresh: bool) -> None:
        for context in self.contexts:
            for parameter in self.parameters:
                parameter.data(context)._fresh_grad = fresh


class ExactAccumulator(GradientAccumulator):
    """Sums them exactly, on a grid: the same bits whoever of `group` computes which micro-batch.

    All devices are CPUs of this process, and add to the same totals. The first gradient that worker 0 adds is that of
    the step's first micro-batch, whatever the number of devices and workers.
    """

    def __init__(
        self,
        parameters: Sequence[Any],
        contexts: Sequence[Any],
        grid: Grid,
        loss_scale: float,
        group: WorkerGroup = SINGLE_WORKER,
    ):
        super().__init__(parameters, contexts)
        self.grid, self.group = grid, group
        grid.start_step(loss_scale)
        self.learns = grid.exponents is None
        # Of each parameter, whether servers add this worker's float32 sums exactly; one worker's they only copy.
        self.are_exact = [True] * len(self.parameters)

    def before_backward(self, context: Any) -> None:
        """Add the device's last gradients, which are computed, before the next backward pass overwrites them."""
        if context in self.sums:
            self._add(context)
        self.sums[context] = []

    def write_sums(self) -> list[Any]:
        """Wait for the last backward passes; write the sums to the first device's arrays, and zeros to all others."""
        mx.nd.waitall()
        for context in self.contexts:
            if context in self.sums:
                self._add(context)
        self._learn([])  # a worker without a micro-batch has not added any
        sums = [parameter.grad(self.contexts[0]) for parameter in self.parameters]
        numbers = [memory(gradient) for gradient in sums]
        for number, total in zip(numbers, self.grid.totals):
            with np.errstate(over="ignore"):
                number[:] = total
        if self.group.world_size > 1:
            self.are_exact = self.grid.are_within(numbers, exact_bits(self.group.world_size))
        for context in self.contexts[1:]:
            for parameter in self.parameters:
                parameter.grad(context)[:] = 0
        self._set_fresh(True)
        return sums

    def end_step(self, is_applied: bool) -> None:
        sums = [memory(parameter.grad(self.contexts[0])) for parameter in self.parameters]
        self.grid.end_step(sums, is_applied)

    def _add(self, context: Any) -> None:
        gradients = [memory(gradient) for gradient in self._last(context)]
        self._learn(gradients)
        self.grid.add(gradients)

    def _learn(self, gradients: Sequence[Any]) -> None:
        """Let all workers take the grid from worker 0's first gradients, where there is none; a collective then."""
        if self.learns:
            self.learns = False
            has_first = self.group.rank == 0
            own = self.grid.maxima(gradients) if has_first else np.zeros(self.grid.ends[-1])
            self.grid.learn(self.group.sum(own))


def memory(array: Any) -> Any:
    """Return the numbers of a float32 array on a CPU, where they are, flat; computing them must have been asked for.

    `asnumpy` copies them. They are the caller's until MXNet is asked to compute with the array again.
    """
    array.wait_to_read()
    pointer = ctypes.POINTER(ctypes.c_float)()
    # Also puts an array that oneDNN has laid out in blocks back in order.
    mx.base.check_call(mx.base._LIB.MXNDArrayGetData(array.handle, ctypes.byref(pointer)))
    return np.ctypeslib.as_array(pointer, (array.size,))
