"""The half of a task that says what is predicted, where that is one of several classes for each sample.

Owns metrics, score and answers; losses are those of `tasks/classes.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Sequence

import numpy as np

from mxtrain.config.program_objects import ProgramObjects
from mxtrain.data.fields import Array, Arrays, Field
from mxtrain.data.interfaces import Dataset
from mxtrain.data.labels import label_checks
from mxtrain.tasks.classes import (
    ClassificationForward,
    answered,
    classes_in_words,
    likeliest_first,
    probabilities,
)
from mxtrain.tasks.inputs.net_inputs import NetInputs
from mxtrain.tasks.metrics.metrics import Accuracy
from mxtrain.tasks.targets.named_targets import NamedTargets
from mxtrain.tasks.task import Metric, Score


@dataclasses.dataclass(frozen=True)
class PredictedClasses(NamedTargets):
    """Classes as targets; `weights` are those of the classes."""

    noun = "classes"
    metric_kind = "classes"
    step_means = ("accuracy",)
    score = Score("accuracy")
    field = Field("label", ())

    def check(self, dataset: Dataset) -> None:
        label_checks.check(dataset, self.names)

    def summary(self) -> str:
        return f"{len(self.names)} classes"

    def forward(self, inputs: NetInputs, objects: ProgramObjects, is_training: bool) -> ClassificationForward:
        from mxtrain.models import losses

        smoothing = self.label_smoothing if is_training else 0.0
        loss = losses.build(self.loss, smoothing, self.num_outputs, objects)
        return ClassificationForward(loss, class_weights=self.weights if is_training else None, inputs=inputs)

    def metrics(self) -> Sequence[Metric]:
        return (Accuracy(),)

    def sample_result(self, output: Array | None, arrays: Arrays) -> dict[str, Any]:
        return answered(output, arrays["label"])

    def shown(self, output: Any) -> dict[str, Any]:
        """Return every class with its probability, the likeliest first, for JSON, from the output of one sample."""
        return likeliest_first(self.names, probabilities(np.ravel(output)))

    def in_words(self, shown: Mapping[str, Any]) -> str:
        return classes_in_words(shown)
