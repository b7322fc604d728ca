"""Several labels for each picture.

Owns what pictures mean to that task; what several labels mean is `several_labels.py`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy as np

from mxtrain.config import Run
from mxtrain.data import image_fields
from mxtrain.data.augment import normalization
from mxtrain.data.fields import Array, Arrays, Field
from mxtrain.data.interfaces import Dataset
from mxtrain.data.labels import class_weights, label_checks
from mxtrain.tasks import task_flags
from mxtrain.tasks.classes import described
from mxtrain.tasks.classification import Classification
from mxtrain.tasks.metrics.multilabel_metrics import F1, AveragePrecision
from mxtrain.tasks.targets import several_labels
from mxtrain.tasks.targets.several_labels import LabelsForward
from mxtrain.tasks.task import Description, Metric, Score

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, NDArray, NDArrays, Net


class Multilabel(Classification):
    """The task; its description has `class_names`, and `class_weights`, those of a yes, if given."""

    losses = several_labels.LOSSES
    # Those of one class a sample are not: balanced sampling, and a softmax in chunks.
    flags = Classification.flags - {"sampling"} - task_flags.OF_CHUNKS
    metric_kind = "labels"
    step_means = ("label_accuracy",)
    score = Score("mean_average_precision")

    @classmethod
    def describe(cls, run: Run, train: Dataset, val: Dataset | None) -> Description:
        image_fields.refuse_arrays(train)
        names = label_checks.several_names(train, val, run.data.num_classes)
        weights = class_weights.of_labels(run.model.class_weights, train, names)
        return {**described(names, weights), **normalization.described(run, train)}

    @property
    def fields(self) -> Sequence[Field]:
        return image_fields.fields_of(self.run, (len(self.class_names),))

    def check(self, dataset: Dataset) -> None:
        label_checks.check_several(dataset, self.class_names)

    def summary(self) -> str:
        return f"{len(self.class_names)} classes, several a picture"

    def of_batch(self, batch: object, user: str) -> Arrays:
        count = len(self.class_names)
        sizes = self.run.optim.batch_size, self.run.data.image_size, count
        return image_fields.of_batch(
            batch, user, *sizes, label_shape=(count,), channels=self.run.data.channels
        )

    def _caption(self, label: Any) -> str:
        return ", ".join(self.class_names[number] for number in np.flatnonzero(label > 0)) or "none"

    def training_forward(self, teacher: Block | None) -> LabelsForward:
        return LabelsForward(**vars(super().training_forward(teacher)))

    def plain_forward(self) -> LabelsForward:
        return LabelsForward(self._plain_loss(), inputs=self.net_inputs)

    def metrics(self) -> Sequence[Metric]:
        count = len(self.class_names)
        return AveragePrecision(count), F1(count)

    def sample_result(self, output: Array | None, arrays: Arrays) -> dict[str, Any]:
        return several_labels.answered(output, arrays["label"])

    def answer(self, net: Net, arrays: NDArrays) -> NDArray:
        """Return the probability of each label, which is there or not whatever the others are."""
        return net(arrays["data"]).astype("float32", copy=False).sigmoid()

    def shown(self, output: Array) -> dict[str, Any]:
        return several_labels.present(self.class_names, output)

    def in_words(self, shown: Mapping[str, Any]) -> str:
        return several_labels.labels_in_words(shown)

    def _loss(self, smoothing: float) -> Any:
        from mxtrain.models import losses

        return losses.build_of_labels(self.run.model.loss, smoothing, len(self.class_names), self.objects)

    def _plain_loss(self) -> Any:
        return self._loss(0.0)
