"""The half of a task that says what is predicted, where that is one of several classes for each sample."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Sequence

import numpy as np

from mxtrain.data import labels
from mxtrain.data.fields import Field
from mxtrain.data.records import Dataset
from mxtrain.tasks.classification import ClassificationForward
from mxtrain.tasks.metrics import Accuracy
from mxtrain.tasks.net_inputs import NetInputs
from mxtrain.tasks.task import Metric, Score


@dataclasses.dataclass(frozen=True)
class PredictedClasses:
    """Classes as targets, by the loss that `--loss` describes."""

    names: list[str]
    loss: str
    label_smoothing: float = 0.0
    weights: Sequence[float] | None = None

    judged_as = "classes"
    step_means = ("accuracy",)
    score = Score("accuracy")
    field = Field("label", ())

    @property
    def num_outputs(self) -> int:
        return len(self.names)

    @property
    def expects(self) -> str:
        """The sentence about a net that answers something else."""
        num = self.num_outputs
        return f"there are {num} classes; it has to give one array of shape (samples, {num})"

    def check(self, dataset: Dataset) -> None:
        labels.check(dataset, self.names)

    def summary(self) -> str:
        return f"{len(self.names)} classes"

    def forward(self, inputs: NetInputs, is_training: bool) -> ClassificationForward:
        from mxtrain.models import losses

        loss = losses.build(self.loss, self.label_smoothing if is_training else 0.0, self.num_outputs)
        return ClassificationForward(loss, class_weights=self.weights if is_training else None, inputs=inputs)

    def metrics(self) -> Sequence[Metric]:
        return (Accuracy(),)

    def shown(self, output: Any) -> dict[str, Any]:
        """Return every class with its probability, the likeliest first, for JSON, from the output of one sample."""
        scores = np.ravel(output).astype(np.float64)
        shares = np.exp(scores - scores.max())
        shares /= shares.sum()
        order = np.argsort(-shares, kind="stable")
        return {"classes": [{"class": self.names[at], "probability": float(shares[at])} for at in order]}

    def in_words(self, shown: Mapping[str, Any]) -> str:
        return ", ".join(f"{each['class']} {each['probability']:.3f}" for each in shown["classes"][:3])
