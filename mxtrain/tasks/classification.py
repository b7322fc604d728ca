"""Classification: one of several classes for each picture.

Owns what pictures and classes mean to training: labels, augmentation, mixing, the teacher, accuracy. Losses are
`models/losses.py`'s, what becomes of pixels `data`'s.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Sequence

from mxtrain.config import Run, catalogue, names
from mxtrain.data import labels, mix, pictures
from mxtrain.data.augment import eval_transform, train_transform
from mxtrain.data.fields import Arrays, Field
from mxtrain.data.mix import MixedIn
from mxtrain.data.records import Dataset, Record
from mxtrain.models.contract import Contract, of_pictures
from mxtrain.tasks import heeded_flags
from mxtrain.tasks.metrics import Accuracy
from mxtrain.tasks.task import Description, Metric, Outcome, Score, Task


class Classification(Task):
    """The task; its description is `{"class_names": [...]}`, a name for each output of the net."""

    flags = heeded_flags.ONLY_SOME_TASKS
    nets = names.MODELS
    losses = catalogue.LOSSES_OF_CLASSES
    unit = "images"
    step_means = ("accuracy",)
    score = Score("accuracy")

    @classmethod
    def describe(cls, run: Run, train: Dataset, val: Dataset | None) -> Description:
        return {"class_names": labels.class_names(train, val, run.data.num_classes)}

    @classmethod
    def numbered(cls, run: Run, num_classes: int) -> Classification:
        """Return the task of classes that are called by their numbers, where there is no data."""
        return cls(run, {"class_names": [str(number) for number in range(num_classes)]})

    @property
    def class_names(self) -> list[str]:
        names: list[str] = self.description["class_names"]
        return names

    @property
    def fields(self) -> Sequence[Field]:
        return pictures.fields(self.run.data.image_size, pictures.dtype_of(self.run))

    def check(self, dataset: Dataset) -> None:
        labels.check(dataset, self.class_names)

    def summary(self) -> str:
        return f"{len(self.class_names)} classes"

    def reader(self, is_training: bool) -> pictures.PictureReader:
        size = self.run.data.image_size
        if is_training and not self.run.optim.overfit:
            return pictures.PictureReader(train_transform(self.run.data.augment, size))
        return pictures.PictureReader(eval_transform(size, pictures.resize_of(self.run.data)))

    @classmethod
    def record_of(cls, key: int, item: Any, user: str) -> Record:
        return pictures.record_of(key, item, user)

    def of_batch(self, batch: Any, user: str) -> Arrays:
        sizes = self.run.optim.batch_size, self.run.data.image_size, len(self.class_names)
        return pictures.of_batch(batch, user, *sizes)

    def mix(self, data: Any, label: Any, step: int, position: int) -> MixedIn | None:
        """Mix the pictures of a micro-batch as --mixup and --cutmix say; see `data/mix.py`."""
        alphas = {"mixup": self.run.data.mixup, "cutmix": self.run.data.cutmix}
        return mix.mix(data, label, step, position, seed=self.run.optim.seed, **alphas)

    def prepare(self, arrays: Arrays, step: int, position: int) -> Arrays:
        mixed_in = self.mix(arrays["data"], arrays["label"], step, position)
        if mixed_in is None:
            return arrays
        return {**arrays, "other_label": mixed_in.label, "other_fraction": mixed_in.fraction}

    def contract(self) -> Contract:
        return of_pictures(self.run.data.image_size, len(self.class_names))

    def build_net(self) -> Any:
        from mxtrain.models import zoo

        name, num_classes = self.run.model.model, len(self.class_names)
        net = zoo.build(name, num_classes)
        zoo.check_sizes(net, name, num_classes)
        return net

    def training_forward(self, teacher: Any) -> ClassificationForward:
        optim = self.run.optim
        return ClassificationForward(
            self._loss(optim.label_smoothing), teacher, optim.distill_weight, optim.distill_temperature
        )

    def plain_forward(self) -> ClassificationForward:
        return ClassificationForward(self._loss(0.0))

    def metrics(self) -> Sequence[Metric]:
        return (Accuracy(),)

    def _loss(self, smoothing: float) -> Any:
        from mxtrain.models import losses

        return losses.build(self.run.model.loss, smoothing, len(self.class_names))


@dataclasses.dataclass(frozen=True)
class ClassificationForward:
    """The losses of a micro-batch: weighted over both labels where two samples were mixed, and partly a teacher's.

    The teacher, a trained net, sees the same pictures, mixed or not, on the same device, in inference mode.
    """

    loss: Any
    teacher: Any = None
    teacher_weight: float = 0.0
    temperature: float = 1.0

    def __call__(self, net: Any, arrays: Mapping[str, Any]) -> Outcome:
        from mxtrain.models.normalize import normalized
        from mxtrain.runtime import mx

        data, label = normalized(arrays["data"]), arrays["label"]
        # The loss is computed in float32 whatever the net runs in.
        output = net(data).astype("float32", copy=False)
        losses = self.loss(output, label)
        if "other_label" in arrays:
            other, share = arrays["other_label"], arrays["other_fraction"]
            losses = (1 - share) * losses + share * self.loss(output, other)
        if self.teacher is not None:
            losses = self._with_teacher(losses, output, data)
        with mx.autograd.pause():
            hits = (output.argmax(axis=1) == label).sum()
        return Outcome(losses, len(label), {"accuracy": (hits, len(label))}, output)

    def _with_teacher(self, losses: Any, output: Any, data: Any) -> Any:
        from mxtrain.models.losses import distillation
        from mxtrain.runtime import mx

        with mx.autograd.pause(train_mode=False):
            taught = self.teacher(data).astype("float32", copy=False)
        apart = distillation(output, taught, self.temperature)
        return (1 - self.teacher_weight) * losses + self.teacher_weight * apart
