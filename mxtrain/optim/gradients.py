"""The gradients of a step's micro-batches, summed on each device.

Owns what a device's gradient arrays hold when the trainer reduces them over the devices, and how they are unscaled and
clipped after.
"""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from mxtrain.models import sparse_rows
from mxtrain.runtime import mx


class GradientSum:
    """Sums the gradients of a device's micro-batches into its gradient arrays.

    `grad_req='add'` would do it, but silently gives zeros under AMP. A parameter that a backward pass did not
    reach keeps its old gradient in MXNet: here it counts as zero, and so does a whole device without work.
    """

    def __init__(self, trainer: Any, contexts: Sequence[Any]):
        self.contexts = contexts
        self.parameters = [p for p in trainer._params if p.grad_req != "null"]
        self.totals: dict[Any, list[Any]] = {}
        # Gradients of a step that was not applied have not been taken, and never shall be.
        self._set_fresh(False)

    def before(self, context: Any) -> None:
        """Save the device's last gradients from the backward pass to come."""
        if context not in self.totals:
            self.totals[context] = []
        elif not self.totals[context]:
            self.totals[context] = [gradient.copy() for gradient in self._last(context)]
        else:
            for total, gradient in zip(self.totals[context], self._last(context)):
                total += gradient

    def settle(self) -> list[Any]:
        """Leave each device's sum where the trainer looks for it; the first device's arrays."""
        for context in self.contexts:
            gradients = self._last(context)
            for total, gradient in zip(self.totals.get(context, []), gradients):
                gradient += total
        self._set_fresh(True)
        return [parameter.grad(self.contexts[0]) for parameter in self.parameters]

    def unscale(self, scale: float) -> None:
        """Divide by a loss scale, on every device.

        An operator of its own: within an optimizer's factor or a clip's limit a scale would change how MXNet reads
        that number. It reads float32 from decimals, and for some x it takes x / 1024 for a neighbour of it.
        """
        if scale != 1.0:
            for gradient in self._on_all_devices():
                gradient *= 1.0 / scale

    def clip(self, largest: float) -> None:
        """No number above `largest` or below its negative, on any device."""
        for gradient in self._on_all_devices():
            mx.nd.clip(gradient, -largest, largest, out=gradient)

    def _on_all_devices(self) -> Iterator[Any]:
        return (parameter.grad(context) for context in self.contexts for parameter in self.parameters)

    def _last(self, context: Any) -> list[Any]:
        """The gradients of the last backward pass there, zero where it did not reach."""
        gradients = []
        for parameter in self.parameters:
            data, gradient = parameter.data(context), parameter.grad(context)
            if not data._fresh_grad:
                sparse_rows.clear(gradient)
            data._fresh_grad = False
            gradients.append(gradient)
        return gradients

    def _set_fresh(self, fresh: bool) -> None:
        for context in self.contexts:
            for parameter in self.parameters:
                parameter.data(context)._fresh_grad = fresh
