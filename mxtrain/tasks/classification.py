"""Classification: one of several classes for each picture.

Owns what pictures mean to training: augmentation, mixing, the teacher. What classes mean is `classes.py`'s, what
becomes of pixels `data`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Collection, Mapping, Sequence

import numpy as np

from mxtrain.config import Run
from mxtrain.config.components import losses as loss_names
from mxtrain.config.components import nets as net_names
from mxtrain.core.errors import UsageError
from mxtrain.data import image_fields, input_files
from mxtrain.data.augment import mixup, normalization
from mxtrain.data.augment.mixup import MixedIn
from mxtrain.data.fields import Array, Arrays, Field
from mxtrain.data.interfaces import Dataset, Record
from mxtrain.data.labels import class_weights, label_checks
from mxtrain.models.contract import Contract, of_pictures
from mxtrain.models.heads import class_samples
from mxtrain.tasks import task_flags
from mxtrain.tasks.classes import (
    HEAD_CLASSES,
    ChunkedForward,
    ClassificationForward,
    TaskOfClasses,
    answered,
    answered_in_ranks,
    classes_in_words,
    described,
    likeliest_first,
)
from mxtrain.tasks.inputs.net_inputs import NetInputs, Pictures
from mxtrain.tasks.metrics.metrics import Accuracy, RankAccuracy
from mxtrain.tasks.task import Description, Forward, Metric, Output, Score

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, NDArray, NDArrays, Net

COSINE_SCALE = "cosine_scale"  # in descriptions


class Classification(TaskOfClasses):
    """The task; its description has `class_names`, a name for each output of the net, `class_weights` if given, and
    `cosine_scale` where the net's head answers with scaled cosines, as --loss has it."""

    flags = (
        task_flags.OF_PICTURES
        | task_flags.OF_CLASSES
        | task_flags.OF_TEACHERS
        | task_flags.OF_CHUNKS
        | {"model", "loss"}
    )
    nets = net_names.that_take(net_names.PICTURES)
    losses: ClassVar[Collection[str]] = (
        *loss_names.of_target(loss_names.CLASSES),
        *loss_names.of_target(loss_names.COSINES),
    )
    metric_kind = "classes"
    suffixes = input_files.PICTURES
    takes_names = True
    unit = "images"
    step_means = ("accuracy",)
    score = Score("accuracy")

    @classmethod
    def describe(cls, run: Run, train: Dataset, val: Dataset | None) -> Description:
        image_fields.refuse_arrays(train)
        names = label_checks.class_names(train, val, run.data.num_classes)
        weights = class_weights.of_classes(run.model.class_weights, train, names)
        return {**described(names, weights), **_described_head(run), **normalization.described(run, train)}

    @classmethod
    def numbered(cls, run: Run, num_classes: int) -> Classification:
        """Return the task of classes that are called by their numbers, where there is no data."""
        return cls(run, {"class_names": list(map(str, range(num_classes))), **_described_head(run)})

    @property
    def fields(self) -> Sequence[Field]:
        return image_fields.fields_of(self.run)

    def check(self, dataset: Dataset) -> None:
        label_checks.check(dataset, self.class_names)

    def summary(self) -> str:
        return f"{len(self.class_names)} classes"

    def reader(self, is_training: bool) -> image_fields.PictureReader:
        is_stream = is_training and self.run.optim.epoch_steps  # `describe` has seen no labels
        num_classes = len(self.class_names) if is_stream else 0
        transform = image_fields.transform_of(self.run, self.description, is_training)
        return image_fields.PictureReader(transform, num_classes)

    @classmethod
    def record_of(cls, key: int, item: object, user: str) -> Record:
        return image_fields.record_of(key, item, user)

    def of_batch(self, batch: object, user: str) -> Arrays:
        sizes = self.run.optim.batch_size, self.run.data.image_size, len(self.class_names)
        return image_fields.of_batch(batch, user, *sizes, channels=self.run.data.channels)

    def mix(self, data: Any, label: Any, step: int, position: int) -> MixedIn | None:
        """Mix the pictures of a micro-batch as --mixup and --cutmix say; see `data/augment/mixup.py`."""
        alphas = {"mixup": self.run.data.mixup, "cutmix": self.run.data.cutmix}
        return mixup.mix(data, label, step, position, seed=self.run.optim.seed, **alphas)

    def prepare(self, arrays: Arrays, step: int, position: int) -> Arrays:
        num_taken = self.run.model.head_classes
        if 0 < num_taken < len(self.class_names):
            draw = len(self.class_names), num_taken, self.run.optim.seed, step
            return {**arrays, HEAD_CLASSES: class_samples.step_classes(arrays["label"], *draw)}
        mixed_in = self.mix(arrays["data"], arrays["label"], step, position)
        if mixed_in is None:
            return arrays
        return {**arrays, "other_label": mixed_in.label, "other_fraction": mixed_in.fraction}

    def samples_seen(self, arrays: Arrays) -> Sequence[tuple[str, Array | str]]:
        normalisation = normalization.of_description(self.run.data, self.description)
        captions = [self._caption(label) for label in arrays["label"]]
        if "other_label" in arrays:
            shares = arrays["other_fraction"].ravel()
            captions = [
                f"{1 - share:.0%} {caption}, {share:.0%} {self._caption(other)}"
                for caption, other, share in zip(captions, arrays["other_label"], shares)
            ]
        return list(zip(captions, image_fields.restored(arrays["data"], normalisation)))

    def _caption(self, label: Any) -> str:
        """Return the name of a label."""
        return self.class_names[int(label)]

    def contract(self) -> Contract:
        data = self.run.data
        contract = of_pictures(data.image_size, len(self.class_names), data.channels)
        return contract._replace(answer=None) if self.is_chunked else contract  # the net ends at its features

    @property
    def is_chunked(self) -> bool:
        """True where the net's head is in chunks, as it is while it trains."""
        return self.run.model.head_chunk > 0

    def build_net(self) -> Block:
        from mxtrain.models.heads import class_chunks, cosine_head
        from mxtrain.models.nets import zoo

        name, num_classes = self.run.model.model, len(self.class_names)
        net = zoo.build(name, num_classes, self.run.data.channels, self.objects)
        scale = self.description.get(COSINE_SCALE)
        if self.is_chunked:
            rows, (shape,) = self.run.model.head_chunk, self.contract().inputs
            class_chunks.put(net, name, num_classes, rows, shape, is_of_cosines=scale is not None)
        elif scale is not None:
            cosine_head.put(net, name, num_classes, scale)
        zoo.check_sizes(net, name, num_classes)
        return net

    def training_forward(self, teacher: Block | None) -> Forward:
        optim = self.run.optim
        if self.is_chunked:
            return self._chunked_forward(is_training=True)
        return ClassificationForward(
            self._loss(optim.label_smoothing),
            teacher,
            optim.distill_weight,
            optim.distill_temperature,
            self.description.get("class_weights"),
            self.net_inputs,
        )

    def plain_forward(self) -> Forward:
        if self.is_chunked:
            return self._chunked_forward(is_training=False)
        return ClassificationForward(self._plain_loss(), inputs=self.net_inputs)

    @property
    def net_inputs(self) -> NetInputs:
        """The function from the arrays of a micro-batch to what the net takes."""
        return Pictures(normalization.of_description(self.run.data, self.description))

    def metrics(self) -> Sequence[Metric]:
        return (RankAccuracy(),) if self.is_chunked else (Accuracy(),)

    def predictions_and_targets(self, output: Output, arrays: Arrays) -> tuple[Array, Array]:
        if self.is_chunked:  # nothing has the scores of all classes
            return np.zeros(0), np.zeros(0)
        return super().predictions_and_targets(output, arrays)

    def sample_result(self, output: Array | None, arrays: Arrays) -> dict[str, Any]:
        if self.is_chunked:
            return answered_in_ranks(output, arrays)
        return answered(output, arrays["label"])

    def inputs_of(self, source: object) -> dict[str, Any]:
        return {"data": image_fields.input_of(source, self.run, self.description)}

    def answer(self, net: Net, arrays: NDArrays) -> NDArray:
        """Return the probability of each class."""
        return net(arrays["data"]).astype("float32", copy=False).softmax(axis=1)

    def shown(self, output: Array) -> dict[str, Any]:
        """Return all classes with their probabilities, the likeliest first."""
        return likeliest_first(self.class_names, output)

    def in_words(self, shown: Mapping[str, Any]) -> str:
        return classes_in_words(shown)

    def _chunked_forward(self, is_training: bool) -> ChunkedForward:
        from mxtrain.models.heads import class_chunks, last_layer, margins

        model = self.run.model
        last_layer.refuse_net_object(class_chunks.FLAG, model.model, self.objects)
        weights = self.description.get("class_weights") if is_training else None
        return ChunkedForward(margins.of_loss(model.loss), is_training, weights, self.net_inputs)

    def _loss(self, smoothing: float) -> Any:
        from mxtrain.models import losses
        from mxtrain.models.heads import last_layer

        model = self.run.model
        if loss_names.cosine_scale(model.loss) is not None:
            last_layer.refuse_net_object(f"--loss {model.loss}", model.model, self.objects)
            if COSINE_SCALE not in self.description:
                raise UsageError(
                    f"--task {model.task}: its description has no '{COSINE_SCALE}', which --loss {model.loss} needs; "
                    "let `describe` add to that of classification"
                )
        return losses.build(model.loss, smoothing, len(self.class_names), self.objects)

    def _plain_loss(self) -> Any:
        """Return the loss of evaluations: without smoothing, and without a margin."""
        from mxtrain.models import losses

        return losses.build_plain(self.run.model.loss, len(self.class_names), self.objects)


def _described_head(run: Run) -> Description:
    """Return the part of a description that says what the net's head is; nothing of a plain one."""
    scale = loss_names.cosine_scale(run.model.loss)
    return {} if scale is None else {COSINE_SCALE: scale}
