"""The half of a task that says what is predicted, where that is numbers: loss, metrics, and predictions in words.

Nets answer in standardised numbers, which losses compare; metrics and predictions are in the units of the data.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy as np

from mxtrain.config.program_objects import ProgramObjects
from mxtrain.data.fields import Array, Arrays, Field
from mxtrain.data.interfaces import Dataset
from mxtrain.data.labels import targets
from mxtrain.data.labels.targets import Numbers
from mxtrain.tasks.inputs.net_inputs import NetInputs
from mxtrain.tasks.metrics.metrics import Errors
from mxtrain.tasks.task import Metric, Outcome, Score

if TYPE_CHECKING:
    from mxtrain.runtime.types import NDArray, NDArrays, Net


@dataclasses.dataclass(frozen=True)
class PredictedNumbers:
    """Numbers as targets, compared by the loss that `--loss` describes."""

    targets: Numbers
    loss: str

    metric_kind = "numbers"
    step_means = ("mae",)
    score = Score("rmse", is_lower_better=True)

    @property
    def field(self) -> Field:
        """The targets of a sample, in the units of the data."""
        return Field("label", (self.targets.num,), self.targets.dtype)

    @property
    def num_outputs(self) -> int:
        return self.targets.num

    @property
    def expects(self) -> str:
        """The sentence about a net that answers something else."""
        num = self.num_outputs
        return f"there {_are(num)} to predict; it has to give one array of shape (samples, {num})"

    def check(self, dataset: Dataset) -> None:
        targets.check(dataset, self.targets)

    def summary(self) -> str:
        names = self.targets.names
        shown = ", ".join(names[:5]) + ", ..." * (len(names) > 5)
        return f"{len(names)} number{'s' * (len(names) > 1)} to predict ({shown})"

    def forward(self, inputs: NetInputs, objects: ProgramObjects, is_training: bool) -> NumbersForward:
        """Return the forward function, the same for training and evaluations."""
        from mxtrain.models import losses

        loss = losses.build_of_numbers(self.loss, self.num_outputs, objects)
        return NumbersForward(self.targets, inputs, loss)

    def metrics(self) -> Sequence[Metric]:
        return (Errors(self.targets.names),)

    def sample_result(self, output: Array | None, arrays: Arrays) -> dict[str, Any]:
        if output is None or np.shape(output) != np.shape(arrays["label"]):
            return {}  # of a user's task
        numbers = (np.ravel(each).astype(np.float64).tolist() for each in (arrays["label"], output))
        return dict(zip(("label", "predicted"), numbers))

    def shown(self, output: Any) -> dict[str, Any]:
        """Return the numbers by their names, for JSON, from the net's output for one sample."""
        restored = self.targets.statistics.restored(np.ravel(output))
        return {name: float(number) for name, number in zip(self.targets.names, restored)}

    def in_words(self, shown: Mapping[str, Any]) -> str:
        digits = 6 if self.targets.dtype == "float32" else 12
        return ", ".join(f"{name} {number:.{digits}g}" for name, number in shown.items())


def _are(num: int) -> str:
    return "is 1 number" if num == 1 else f"are {num} numbers"


@dataclasses.dataclass(frozen=True)
class NumbersForward:
    """The losses of a micro-batch, over standardised numbers; the outcome's output is in the units of the data."""

    targets: Numbers
    inputs: NetInputs
    loss: Any
    _on_devices: dict[Any, Any] = dataclasses.field(default_factory=dict, repr=False)

    def __call__(self, net: Net, arrays: NDArrays) -> Outcome:
        from mxtrain.runtime import mx

        label = arrays["label"]
        mean, divisor = self._statistics(label)
        # The loss is computed in float32 whatever the net runs in.
        output = net(*self.inputs(arrays)).astype("float32", copy=False)
        with mx.autograd.pause():
            standardised = mx.nd.broadcast_div(mx.nd.broadcast_sub(label, mean), divisor)
            standardised = standardised.astype("float32", copy=False)
        losses: NDArray = self.loss(output, standardised)
        count: NDArray | float = len(label)
        if "sample_weight" in arrays:
            losses, count = arrays["sample_weight"] * losses, arrays["sample_weight"].sum()
        with mx.autograd.pause():
            output = output.astype(label.dtype, copy=False)
            output = mx.nd.broadcast_add(mx.nd.broadcast_mul(output, divisor), mean)
            apart = (output - label).abs().mean(axis=1).sum().astype("float32", copy=False)
        return Outcome(losses, count, {"mae": (apart, len(label))}, output)

    def _statistics(self, label: Any) -> Any:
        """Return means and divisors in the type of the labels and on their device, where they stay."""
        from mxtrain.runtime import mx

        context = label.context
        if context not in self._on_devices:
            rows = (self.targets.statistics.mean, self.targets.statistics.divisors())
            self._on_devices[context] = [
                mx.nd.array(row.reshape(1, -1), context, label.dtype) for row in rows
            ]
        return self._on_devices[context]
