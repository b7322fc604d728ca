"""Several labels for each picture: every class is a decision of its own, yes, no or unknown.

Owns what that changes beside classification: labels, losses, metrics. Losses are `models/losses.py`'s.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from mxtrain.config import Run
from mxtrain.data import class_weights, labels, normalisation, pictures
from mxtrain.data.fields import Arrays, Field
from mxtrain.data.records import Dataset
from mxtrain.tasks.classes import ClassificationForward, described
from mxtrain.tasks.classification import Classification
from mxtrain.tasks.multilabel_metrics import F1, AveragePrecision
from mxtrain.tasks.task import Description, Metric, Score

WRONG_LABELS = 10  # that are told of a sample


class Multilabel(Classification):
    """The task; its description has `class_names`, and `class_weights`, those of a yes, if given."""

    losses = ("binary_cross_entropy", "focal")
    flags = Classification.flags - {"sampling"}  # which balances one class a sample
    judged_as = "labels"
    step_means = ("label_accuracy",)
    score = Score("mean_average_precision")

    @classmethod
    def describe(cls, run: Run, train: Dataset, val: Dataset | None) -> Description:
        pictures.refuse_arrays(train)
        names = labels.several_names(train, val, run.data.num_classes)
        weights = class_weights.of_labels(run.model.class_weights, train, names)
        return {**described(names, weights), **normalisation.described(run, train)}

    @property
    def fields(self) -> Sequence[Field]:
        return pictures.fields_of(self.run, (len(self.class_names),))

    def check(self, dataset: Dataset) -> None:
        labels.check_several(dataset, self.class_names)

    def summary(self) -> str:
        return f"{len(self.class_names)} classes, several a picture"

    def of_batch(self, batch: Any, user: str) -> Arrays:
        count = len(self.class_names)
        sizes = self.run.optim.batch_size, self.run.data.image_size, count
        return pictures.of_batch(batch, user, *sizes, label_shape=(count,), channels=self.run.data.channels)

    def _caption(self, label: Any) -> str:
        return ", ".join(self.class_names[number] for number in np.flatnonzero(label > 0)) or "none"

    def training_forward(self, teacher: Any) -> MultilabelForward:
        return MultilabelForward(**vars(super().training_forward(teacher)))

    def plain_forward(self) -> MultilabelForward:
        return MultilabelForward(self._loss(0.0), inputs=self.net_inputs)

    def metrics(self) -> Sequence[Metric]:
        count = len(self.class_names)
        return AveragePrecision(count), F1(count)

    def sample_result(self, output: Any, arrays: Arrays) -> dict[str, Any]:
        """Return the labels that it has, and up to ten that are answered wrongly, the worst first."""
        label = arrays["label"]
        if np.ndim(output) != 1 or np.shape(output) != np.shape(label):
            return {}
        against = np.where(label > 0, -output, output).astype(np.float64)  # how far it is on the wrong side
        order = np.argsort(-against, kind="stable")
        wrong = [each for each in order if label[each] >= 0 and not against[each] < 0][:WRONG_LABELS]
        with np.errstate(over="ignore"):
            found = 1 / (1 + np.exp(-output.astype(np.float64)))
        return {
            "labels": np.flatnonzero(label > 0).tolist(),
            "wrong": [[int(each), float(found[each])] for each in wrong],
        }

    def answer(self, net: Any, arrays: Mapping[str, Any]) -> Any:
        """Return the probability of each label, which is there or not whatever the others are."""
        return net(arrays["data"]).astype("float32", copy=False).sigmoid()

    def shown(self, output: npt.NDArray[Any]) -> dict[str, Any]:
        """Return the classes that are rather there than not, the likeliest first, and the probability of each class."""
        likeliest = [self.class_names[i] for i in np.argsort(-output, kind="stable") if output[i] > 0.5]
        return {"present": likeliest, "probabilities": dict(zip(self.class_names, map(float, output)))}

    def in_words(self, shown: Mapping[str, Any]) -> str:
        present = [f"{name} {shown['probabilities'][name]:.3f}" for name in shown["present"]]
        return ", ".join(present) or "none of the classes"

    def _loss(self, smoothing: float) -> Any:
        from mxtrain.models import losses

        return losses.build_of_labels(self.run.model.loss, smoothing, len(self.class_names))


@dataclasses.dataclass(frozen=True)
class MultilabelForward(ClassificationForward):
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
