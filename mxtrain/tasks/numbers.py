"""The half of a task that says what is predicted, where that is numbers: loss, metrics, and predictions in words.

Nets answer in standardised numbers, which losses compare; metrics and predictions are in the units of the data.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from mxtrain.data.fields import Field
from mxtrain.data.targets import Numbers
from mxtrain.tasks.metrics import Errors
from mxtrain.tasks.task import Metric, Outcome

STEP_MEANS = ("mae",)


def field(of: Numbers) -> Field:
    """Return the field of the targets, in the units of the data."""
    return Field("label", (of.num,))


def metrics(of: Numbers) -> Sequence[Metric]:
    return (Errors(of.names, of.statistics.mean),)


def shown(of: Numbers, output: Any) -> dict[str, Any]:
    """Return the numbers by their names, for JSON, from the output of one sample."""
    return {name: float(number) for name, number in zip(of.names, np.ravel(output))}


def in_words(shown: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {number:.6g}" for name, number in shown.items())


def summary(of: Numbers) -> str:
    return (
        f"{of.num} number{'s' * (of.num > 1)} to predict ({', '.join(of.names[:5])}{', ...' * (of.num > 5)})"
    )


@dataclasses.dataclass(frozen=True)
class NumbersForward:
    """The losses of a micro-batch, over standardised numbers; the outcome's output is in the units of the data."""

    of: Numbers
    inputs: Callable[
        [Mapping[str, Any]], Sequence[Any]
    ]  # from the arrays of a micro-batch to what the net takes
    loss: Any
    _on_device: dict[Any, Any] = dataclasses.field(default_factory=dict, repr=False)

    def __call__(self, net: Any, arrays: Mapping[str, Any]) -> Outcome:
        from mxtrain.runtime import mx

        label = arrays["label"]
        mean, divisor = self._statistics(label.context)
        output = net(*self.inputs(arrays)).astype("float32", copy=False)
        with mx.autograd.pause():
            standardised = mx.nd.broadcast_div(mx.nd.broadcast_sub(label, mean), divisor)
        losses = self.loss(output, standardised)
        with mx.autograd.pause():
            output = mx.nd.broadcast_add(mx.nd.broadcast_mul(output, divisor), mean)
            apart = (output - label).abs().mean(axis=1).sum()
        return Outcome(losses, len(label), {"mae": (apart, len(label))}, output)

    def _statistics(self, context: Any) -> Any:
        """Return means and divisors on a device, where they stay."""
        from mxtrain.runtime import mx

        if context not in self._on_device:
            rows = (self.of.statistics.mean, self.of.statistics.divisors())
            self._on_device[context] = [mx.nd.array(row.reshape(1, -1), context, "float32") for row in rows]
        return self._on_device[context]


def in_units(of: Numbers, output: Any) -> Any:
    """Return a net's output in the units of the data, in NumPy."""
    return of.statistics.restored(output.asnumpy())
