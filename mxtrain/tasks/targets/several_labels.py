"""Several labels for each sample: every class is a decision of its own, yes (1), no (0) or unknown (-1).

Owns the half of a task behind the net that this changes beside one class a sample: losses, metrics, answers. Losses
are `models/losses.py`'s.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Sequence

import numpy as np

from mxtrain.config.components import losses as loss_names
from mxtrain.config.program_objects import ProgramObjects
from mxtrain.core import plain_text
from mxtrain.data.fields import Array, Arrays, Field
from mxtrain.data.interfaces import Dataset
from mxtrain.data.labels import label_checks
from mxtrain.tasks.classes import ClassificationForward
from mxtrain.tasks.inputs.net_inputs import NetInputs
from mxtrain.tasks.metrics.multilabel_metrics import F1, AveragePrecision
from mxtrain.tasks.targets.named_targets import NamedTargets
from mxtrain.tasks.task import Metric, Score

LOSSES = loss_names.of_target(loss_names.LABELS)
WRONG_LABELS = 10  # that are told of a sample


@dataclasses.dataclass(frozen=True)
class PredictedLabels(NamedTargets):
    """Labels as targets; `weights` are those of a yes."""

    noun = "labels"
    metric_kind = "labels"
    step_means = ("label_accuracy",)
    score = Score("mean_average_precision")

    @property
    def field(self) -> Field:
        return Field("label", (self.num_outputs,))

    def check(self, dataset: Dataset) -> None:
        label_checks.check_several(dataset, self.names)

    def summary(self) -> str:
        return f"{len(self.names)} classes, several a sample"

    def forward(self, inputs: NetInputs, objects: ProgramObjects, is_training: bool) -> LabelsForward:
        from mxtrain.models import losses

        smoothing = self.label_smoothing if is_training else 0.0
        loss = losses.build_of_labels(self.loss, smoothing, self.num_outputs, objects)
        return LabelsForward(loss, class_weights=self.weights if is_training else None, inputs=inputs)

    def metrics(self) -> Sequence[Metric]:
        return AveragePrecision(self.num_outputs), F1(self.num_outputs)

    def sample_result(self, output: Array | None, arrays: Arrays) -> dict[str, Any]:
        return answered(output, arrays["label"])

    def shown(self, output: Any) -> dict[str, Any]:
        """Return what is there and the probability of each label, for JSON, from the output of one sample."""
        return present(self.names, probabilities(np.ravel(output)))

    def in_words(self, shown: Mapping[str, Any]) -> str:
        return labels_in_words(shown)


def probabilities(scores: Array) -> Array:
    """Return the probability of each label, which is there or not whatever the others are."""
    with np.errstate(over="ignore"):
        shares: Array = 1 / (1 + np.exp(-scores.astype(np.float64)))
    return shares


def answered(output: Any, label: Any) -> dict[str, Any]:
    """Return the labels that a sample has, and up to ten that are answered wrongly, the worst first."""
    if np.ndim(output) != 1 or np.shape(output) != np.shape(label):
        return {}
    against = np.where(label > 0, -output, output).astype(np.float64)  # how far it is on the wrong side
    order = np.argsort(-against, kind="stable")
    wrong = [each for each in order if label[each] >= 0 and not against[each] < 0][:WRONG_LABELS]
    shares = probabilities(output)
    return {
        "labels": np.flatnonzero(label > 0).tolist(),
        "wrong": [[int(each), float(shares[each])] for each in wrong],
    }


def present(names: Sequence[str], shares: Array) -> dict[str, Any]:
    """Return the classes that are rather there than not, the likeliest first, and the probability of each class."""
    likeliest = [names[i] for i in np.argsort(-shares, kind="stable") if shares[i] > 0.5]
    return {"present": likeliest, "probabilities": dict(zip(names, map(float, shares)))}


def labels_in_words(shown: Mapping[str, Any]) -> str:
    """Return such labels in a line."""
    found = [f"{plain_text.quoted(name)} {shown['probabilities'][name]:.3f}" for name in shown["present"]]
    return ", ".join(found) or "none of the classes"


@dataclasses.dataclass(frozen=True)
class LabelsForward(ClassificationForward):
    """The losses of a micro-batch, one for each label; the weight is how many labels there are that are known.

    With class weights a yes counts as many as its class says, and a no 1.
    """

    def counts(self, label: Any) -> Any:
        from mxtrain.runtime import mx

        known = label >= 0
        if self.class_weights is None:
            return known
        of_yes = mx.nd.array(self.class_weights, ctx=label.context)
        return mx.nd.where(label > 0, mx.nd.broadcast_like(of_yes.reshape((1, -1)), label), known)

    def targets(self, label: Any) -> Any:
        """Return labels with a no for what is unknown: of -1 a loss may be NaN, which no weight of 0 takes away."""
        return label.relu()

    def means(self, output: Any, label: Any) -> dict[str, tuple[Any, Any]]:
        right = (output > 0) == label  # never where it is unknown
        return {"label_accuracy": (right.sum(), (label >= 0).sum())}

    def distance(self, output: Any, taught: Any) -> Any:
        from mxtrain.models.losses import label_distillation

        return label_distillation(output, taught, self.temperature)
