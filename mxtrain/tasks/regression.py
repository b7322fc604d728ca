"""Regression: one or more numbers for each picture.

Pictures are read and augmented as classification has them. What numbers mean to training is `number_targets.py`'s.
Numbers for arrays are the task `arrays`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Sequence

from mxtrain.config import Run
from mxtrain.config.components import losses as loss_names
from mxtrain.config.components import nets as net_names
from mxtrain.data import image_fields, input_files
from mxtrain.data.augment import normalization
from mxtrain.data.fields import Array, Arrays, Field
from mxtrain.data.interfaces import Dataset, Record
from mxtrain.data.labels import sample_weights, targets
from mxtrain.data.labels.sample_weights import WeightColumn
from mxtrain.data.loading.assembly import SampleReader
from mxtrain.models.contract import Contract, pictures_in_words
from mxtrain.tasks import task_flags
from mxtrain.tasks.inputs import net_inputs
from mxtrain.tasks.targets.number_targets import PredictedNumbers
from mxtrain.tasks.task import Description, Forward, Metric, Task, TaskPrediction

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, NDArray, NDArrays, Net


class Regression(Task, TaskPrediction):
    """The task; its description is `{"targets": ...}`, names and statistics of the numbers."""

    flags = (task_flags.OF_PICTURES - {"mixup", "cutmix"}) | {"model", "loss", "sample_weight"}
    nets = net_names.that_take(net_names.PICTURES)
    losses = loss_names.of_target(loss_names.NUMBERS)
    looks_at = 1000
    unit = "images"
    metric_kind = "numbers"
    suffixes = input_files.PICTURES
    takes_names = True
    step_means = PredictedNumbers.step_means
    score = PredictedNumbers.score

    @classmethod
    def describe(cls, run: Run, train: Dataset, val: Dataset | None) -> Description:
        image_fields.refuse_arrays(train)
        weighted = sample_weights.split(run.data, train, val, targets.names_of(train))
        found = targets.check_targets(weighted.train, weighted.val, weighted.names)
        return {"targets": found.as_json(), **weighted.described, **normalization.described(run, train)}

    @property
    def predicted(self) -> PredictedNumbers:
        return PredictedNumbers(targets.numbers_of_json(self.description["targets"]), self.run.model.loss)

    def check(self, dataset: Dataset) -> None:
        self.predicted.check(sample_weights.without(dataset, self.weight_column, self.predicted.targets.num))

    def summary(self) -> str:
        return self.predicted.summary() + (f", {self.weight_column}" if self.weight_column else "")

    @property
    def weight_column(self) -> WeightColumn | None:
        """The place of the weights of samples among their labels, if they have some."""
        return sample_weights.column_of_json(self.description.get("sample_weight"))

    @property
    def fields(self) -> Sequence[Field]:
        picture, _ = image_fields.fields_of(self.run)
        own = (picture, self.predicted.field)
        return (*own, sample_weights.FIELD) if self.weight_column else own

    def reader(self, is_training: bool) -> SampleReader:
        reader = image_fields.PictureReader(
            image_fields.transform_of(self.run, self.description, is_training)
        )
        return sample_weights.reader(reader, self.weight_column, self.predicted.targets.num, is_training)

    @classmethod
    def record_of(cls, key: int, item: object, user: str) -> Record:
        return image_fields.record_of(key, item, user)

    def samples_seen(self, arrays: Arrays) -> Sequence[tuple[str, Array | str]]:
        normalisation = normalization.of_description(self.run.data, self.description)
        names = self.predicted.targets.names
        captions = [
            ", ".join(f"{name} {number:.4g}" for name, number in zip(names, row)) for row in arrays["label"]
        ]
        return list(zip(captions, image_fields.restored(arrays["data"], normalisation)))

    def contract(self) -> Contract:
        data, predicted = self.run.data, self.predicted
        return Contract(
            inputs=(image_fields.shape_of(data),),
            answer=(predicted.num_outputs,),
            noun="picture",
            takes=pictures_in_words(data.image_size, data.channels),
            expects=predicted.expects,
        )

    def build_net(self) -> Block:
        from mxtrain.models.nets import zoo

        data, outputs = self.run.data, self.predicted.num_outputs
        return zoo.build(self.run.model.model, outputs, data.channels, self.objects)

    def training_forward(self, teacher: Block | None) -> Forward:
        normalisation = normalization.of_description(self.run.data, self.description)
        inputs = net_inputs.Pictures(normalisation)
        return self.predicted.forward(inputs, self.objects, is_training=True)

    def metrics(self) -> Sequence[Metric]:
        return self.predicted.metrics()

    def sample_result(self, output: Array | None, arrays: Arrays) -> dict[str, Any]:
        return self.predicted.sample_result(output, arrays)

    def inputs_of(self, source: object) -> dict[str, Any]:
        return {"data": image_fields.input_of(source, self.run, self.description)}

    def answer(self, net: Net, arrays: NDArrays) -> NDArray:
        return net(arrays["data"]).astype("float32", copy=False)

    def shown(self, output: Array) -> dict[str, Any]:
        return self.predicted.shown(output)

    def in_words(self, shown: Mapping[str, Any]) -> str:
        return self.predicted.in_words(shown)
