"""Gradient accumulation: the gradients of a step's micro-batches, summed on each device.

Owns what a device's gradient arrays hold when a trainer reduces them. Does not own the reduction over devices and
workers (`kvstore`) or exact sums (`exact_gradients.py`).
"""

from __future__ import annotations

from typing import Any, Sequence

from mxtrain.data.fields import Array
from mxtrain.models.nets import sparse_rows
from mxtrain.runtime import mx
from mxtrain.runtime.types import Device, NDArray, Parameter


class GradientAccumulator:
    """Sums the gradients of each device's micro-batches into its gradient arrays.

    `grad_req='add'` would do it, but silently gives zeros under AMP. A parameter that a backward pass does not reach
    keeps its old gradient in MXNet: here it counts as zero, and so does a device without work.

    There is a device for each copy of the net: where the layers of one lie on several, that of its answer.
    """

    def __init__(self, parameters: Sequence[Parameter], devices: Sequence[Device]):
        self.devices = devices
        self.parameters = [parameter for parameter in parameters if parameter.grad_req != "null"]
        self.sums: dict[Any, list[Any]] = {}
        # Gradients that a step without an update left behind must never be taken for new ones.
        self._set_fresh(False)

    def before_backward(self, device: Device) -> None:
        """Save the device's last gradients before the next backward pass overwrites them."""
        if device not in self.sums:
            self.sums[device] = []
        elif not self.sums[device]:
            self.sums[device] = [gradient.copy() for gradient in self._last(device)]
        else:
            for total, gradient in zip(self.sums[device], self._last(device)):
                total += gradient

    def write_sums(self) -> list[NDArray]:
        """Write each device's sums to its gradient arrays, and return the first device's arrays."""
        for device in self.devices:
            gradients = self._last(device)
            for total, gradient in zip(self.sums.get(device, []), gradients):
                gradient += total
        self._set_fresh(True)
        return self.first_gradients()

    def first_gradients(self) -> list[NDArray]:
        """Return the gradient arrays of the first device."""
        return [parameter.list_grad()[0] for parameter in self.parameters]

    def end_step(self, is_applied: bool, maxima: Array | None = None) -> None:
        """Note whether the step's sums are applied, before they change.

        The first device's gradient arrays hold them, or else `maxima` are the largest numbers of their blocks.
        """

    def _last(self, device: Device) -> list[NDArray]:
        """Return the gradients of the last backward pass there, zero where it did not reach."""
        gradients, number = [], self.devices.index(device)
        for parameter in self.parameters:
            data, gradient = parameter.list_data()[number], parameter.list_grad()[number]
            if not data._fresh_grad:
                sparse_rows.set_zero(gradient)
            data._fresh_grad = False
            gradients.append(gradient)
        return gradients

    def _set_fresh(self, fresh: bool) -> None:
        for parameter in self.parameters:
            for data in parameter.list_data():
                data._fresh_grad = fresh


def compute_gradient_in(view: NDArray, parameter: Parameter) -> None:
    """Make autograd write the parameter's gradient on its first device into `view`, a part of a flat array.

    A view stays where it is, where oneDNN moves other arrays as it likes.
    """
    parameter._grad[0] = view
    mx.autograd.mark_variables(parameter.list_data(), parameter.list_grad(), parameter.grad_req)
